// KaTeX and its style. DOM. Loaded with the first formula.

import 'katex/dist/katex.min.css';

export { default } from 'katex';
