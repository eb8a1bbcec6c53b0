// Small helpers for the document. Content only ever becomes text nodes.

/** Return the element with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Make an element with properties and children; strings among the children become text. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/**
 * Set an element's text with as little change as possible: text that only grew is appended, which
 * keeps a selection and costs nothing for unchanged text.
 */
export function setText(element, text) {
  const node = element.firstChild;
  if (!node) {
    if (text) element.append(text);
  } else if (node.data !== text) {
    if (text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
    else node.data = text;
  }
}

/** Return the hour and minute of a time in milliseconds; with the day when it is not today. */
export function clockTime(at) {
  const date = new Date(at);
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString(undefined, { ...(today ? {} : dayOf(date)), hour: "2-digit", minute: "2-digit" });
}

/** Return how a day is written: with its year when that is not the present one. */
function dayOf(date) {
  const year = date.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  return { day: "numeric", month: "short", ...year };
}

/** Return how long ago something was, short; older than a week, the day. */
export function when(at) {
  const minutes = Math.floor((Date.now() - at) / 60_000);
  if (!at || minutes < 1) return at ? "now" : "";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  if (minutes < 7 * 24 * 60) return `${Math.floor(minutes / 60 / 24)} d`;
  const date = new Date(at);
  return date.toLocaleDateString(undefined, dayOf(date));
}
