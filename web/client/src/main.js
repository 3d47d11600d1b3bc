import './style.css';
document.documentElement.dataset.ready = 'true';
