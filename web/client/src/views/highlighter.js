// Listings in colour. DOM. Loaded with the first listing that is complete.

import '../styles/highlight.css';

export { highlight } from '../markdown/highlight.js';
