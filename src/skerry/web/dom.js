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
 * keeps a selection and costs nothing for what stands already.
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
  const day = today ? {} : { day: "numeric", month: "short" };
  return date.toLocaleString(undefined, { ...day, hour: "2-digit", minute: "2-digit" });
}
