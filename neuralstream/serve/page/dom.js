// @ts-check
/**
 * Builds elements. What a memory says only ever becomes text: nothing in this page parses markup.
 *
 * @typedef {Node | string | number | null | undefined | false} Child
 * @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => unknown)>} Attributes
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element.
 *
 * @param {string} name the tag, and a class after a dot: "p.note"
 * @param {Attributes} attributes a function listens to the event of its name; null, undefined and false leave out;
 *   `class` adds to the one after the dot
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  return filled(document.createElement(tag), classes, attributes, children);
}

/**
 * An SVG element; arguments as for `h`.
 *
 * @param {string} name
 * @param {Attributes} attributes
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function svg(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  return filled(/** @type {SVGElement} */ (document.createElementNS(SVG, tag)), classes, attributes, children);
}

/**
 * @template {HTMLElement | SVGElement} E
 * @param {E} element
 * @param {string[]} classes
 * @param {Attributes} attributes
 * @param {(Child | Child[])[]} children
 * @returns {E}
 */
function filled(element, classes, attributes, children) {
  const { class: more, ...others } = attributes;
  const all = [...classes, ...String(more || "").split(" ").filter(Boolean)];
  if (all.length) element.classList.add(...all);
  for (const [key, value] of Object.entries(others)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child instanceof Node ? child : String(child));
    }
  }
  return element;
}

const DAY = new Intl.DateTimeFormat("en", { dateStyle: "medium" });
const MINUTE = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });

/**
 * A moment as people write it; the exact one is in its title.
 *
 * @param {string | null} iso
 * @param {{day?: boolean}} options day: without the time
 */
export function when(iso, { day = false } = {}) {
  if (!iso) return h("span", {}, "undated");
  return h("time", { datetime: iso, title: iso }, (day ? DAY : MINUTE).format(new Date(iso)));
}

/**
 * @param {number} count
 * @param {string} noun
 */
export function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * The address of a view.
 *
 * @param {string} view
 * @param {string} id
 */
export function to(view, id) {
  return `#/${view}/${encodeURIComponent(id)}`;
}

/**
 * Tell somebody who does not see the page what changed.
 *
 * @param {string} text
 */
export function announce(text) {
  const live = document.getElementById("live");
  if (live) live.textContent = text;
}
