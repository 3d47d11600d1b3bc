// Small pictures, drawn in the colour of the text around them. DOM.

import { h } from 'preact';

/** @type {Readonly<Record<string, string>>} */
const PATHS = {
  menu: 'M4 6h16M4 12h16M4 18h16',
  plus: 'M12 5v14M5 12h14',
  up: 'M12 19V5M6 11l6-6 6 6',
  down: 'M12 5v14M6 13l6 6 6-6',
  stop: 'M7 7h10v10H7z',
  warn: 'M12 8v5M12 16.5v.5M12 3 2.5 20h19z',
  check: 'M5 13l5 5 9-11',
  tool: 'M14.5 6.5a4 4 0 0 0-5 5L4 17l3 3 5.5-5.5a4 4 0 0 0 5-5L15 12l-3-3z',
  thought: 'M9 18h6M10 21h4M12 3a6 6 0 0 0-4 10.5c.7.7 1 1.500 1 2.500h6c0-1 .3-1.800 1-2.500A6 6 0 0 0 12 3z',
  image: 'M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.500 9.500h.01',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  again: 'M20 11a8 8 0 1 0-.5 4M20 5v6h-6',
  edit: 'M4 20l1-4L16 5l3 3L8 19zM14 7l3 3',
  code: 'M8 7l-5 5 5 5M16 7l5 5-5 5',
  left: 'M15 6l-6 6 6 6',
  right: 'M9 6l6 6-6 6',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  pin: 'M9 4h6l-1 6 3 3v2H7v-2l3-3zM12 15v5',
  remove: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10 11v5M14 11v5',
  download: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  attach: 'M20 11.500l-8 8a5 5 0 0 1-7-7l8.500-8.500a3.300 3.300 0 0 1 4.700 4.700L10 17a1.600 1.600 0 0 1-2.300-2.300L15 7.500',
  settings: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4',
  search: 'M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l5 5',
  close: 'M6 6l12 12M18 6L6 18',
  file: 'M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6',
  bell: 'M6 17h12l-1.500-2.500V10a4.500 4.500 0 0 0-9 0v4.500zM10 20h4',
  keyboard: 'M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M8 14h8',
};

/** @param {{name: string}} props */
export function Icon({ name }) {
  return h('svg', { class: `icon icon-${name}`, viewBox: '0 0 24 24', 'aria-hidden': 'true' }, h('path', { d: PATHS[name] }));
}

/**
 * A button that shows nothing but a picture.
 * @param {{icon: string, label: string, onClick?: (event: MouseEvent) => void, testid: string, class?: string, [attribute: string]: unknown}} props
 */
export function IconButton({ icon, label, testid, ...rest }) {
  return h('button', { type: 'button', class: 'quiet pictured', title: label, 'aria-label': label, 'data-testid': testid, ...rest }, h(Icon, { name: icon }));
}
