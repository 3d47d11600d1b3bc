// Components that are drawn again only when a property is another object. DOM.

import { Component, h } from 'preact';

/** @import {ComponentChild} from 'preact' */

/**
 * @template {object} P
 * @param {(props: P) => ComponentChild} draw
 */
export function memo(draw) {
  return class Memo extends /** @type {typeof Component<P>} */ (Component) {
    /** @param {Readonly<P>} next */
    shouldComponentUpdate(next) {
      const before = /** @type {Record<string, unknown>} */ (this.props);
      const after = /** @type {Record<string, unknown>} */ (next);
      return [...Object.keys(before), ...Object.keys(after)].some((key) => before[key] !== after[key]);
    }

    render() {
      return h(/** @type {any} */ (draw), /** @type {any} */ (this.props));
    }
  };
}
