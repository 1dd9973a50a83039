// Building and updating elements. Text goes in as text nodes only, so no label can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// A name that a user gave: cut by the style sheet when long, kept apart from the direction of the text around it.
export function label(name) {
  return h("bdi", { class: "label", title: name }, name);
}

export function setLabel(element, name) {
  setText(element, name);
  if (element.title !== name) element.title = name;
}

// The name of a column, which may wrap between its parts: weather=sun.
export function columnLabel(name) {
  const parts = name.split(/(?<=[=_/.-])/u).flatMap((part, k) => (k ? [h("wbr"), part] : [part]));
  return h("bdi", { class: "label", title: name }, ...parts);
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

const rowsOf = new WeakMap();

// Makes the children of a parent those of the items, reusing what is there: focus, selection and open details stay.
export function keyed(parent, items, keyOf, make, update) {
  const old = rowsOf.get(parent) ?? new Map();
  const rows = new Map();
  for (const item of items) {
    const key = keyOf(item);
    rows.set(key, old.get(key) ?? make(item));
  }
  for (const [key, row] of old) if (!rows.has(key)) row.element.remove();
  let next = parent.firstElementChild;
  for (const item of items) {
    const row = rows.get(keyOf(item));
    if (row.element === next) next = next.nextElementSibling;
    else parent.insertBefore(row.element, next);
    update?.(row, item);
  }
  rowsOf.set(parent, rows);
}

// Calls draw with the data when they differ from the last time.
export function onChange(draw) {
  let last;
  return (...data) => {
    const text = JSON.stringify(data);
    if (text === last) return;
    last = text;
    draw(...data);
  };
}

// The head of a table: names of its columns, each with its class.
export function headRow(columns) {
  const cells = columns.map(([name, kind]) => h("th", { scope: "col", class: kind }, name));
  return h("thead", null, h("tr", null, ...cells));
}

let ids = 0;
export function freshId(name) {
  ids += 1;
  return `${name}-${ids}`;
}

export function empty(title, ...lines) {
  const texts = lines.map((line) => h("p", null, line));
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), ...texts);
}

export function code(text) {
  return h("pre", { class: "code", tabindex: "0" }, h("code", null, text));
}
