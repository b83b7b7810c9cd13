// What the scripts of the page share.
export const at = (id) => document.getElementById(id);

// set changes a text only if it differs: a screen reader speaks what has changed.
export function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// make makes an element with these properties and children.
export function make(tag, fields = {}, ...children) {
  const element = Object.assign(document.createElement(tag), fields);
  element.append(...children);
  return element;
}
