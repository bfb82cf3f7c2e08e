/* The elements of the page. Elements are made from text nodes only, so that nothing in an artifact
   can become markup. */

export const root = document.documentElement;
export const app = /** @type {HTMLElement} */ (document.getElementById("app"));
/**
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string>} [attributes]
 * @param {(Node | string)[]} children
 */
export const el = (name, attributes, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  for (const child of children) node.append(child);
  return node;
};
