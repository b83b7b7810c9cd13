// Elements, and values in the reader's language. Text only ever becomes text: nothing parses HTML.
const chosen = storage(() => localStorage.getItem("retrysafe-language"));
export const lang = ["en", "zh"].find((one) => one === chosen) ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
const locale = lang === "zh" ? "zh-CN" : navigator.language.startsWith("en") ? navigator.language : "en";

// Only the texts of one language are loaded.
const tables = await Promise.all(lang === "zh" ? [import("./zh.js"), import("./zh-causes.js")] : [import("./en.js"), import("./en-causes.js")]);
const texts = new Map(tables.flatMap((one) => one.default.trim().split("\n")).map((line) => line.split("|")));

// storage does something with what the browser keeps, which it may forbid.
export function storage(act) {
  try {
    return act();
  } catch {
    return null;
  }
}

// has reports whether there is a text.
export const has = (key) => texts.has(key);

// t returns a text with its values.
export const t = (key, values = {}) => (texts.get(key) ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");

// word returns the text of a word of the API, or the word itself.
export const word = (kind, name) => has(`${kind}.${name}`) ? t(`${kind}.${name}`) : seen(name);

export function switchLanguage() {
  storage(() => localStorage.setItem("retrysafe-language", lang === "zh" ? "en" : "zh"));
  location.reload();
}

// h makes an element of "tag.class.class". An object among the rest has attributes and listeners;
// nothing is made of null and false.
export function h(name, ...rest) {
  const [tag, ...classes] = name.split(".");
  const e = document.createElement(tag);
  if (classes.length) e.className = classes.join(" ");
  return fill(e, rest);
}

// svg is h for elements of SVG.
export const svg = (tag, ...rest) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), rest);

function fill(e, rest) {
  for (const x of rest.flat(5)) {
    if (x === null || x === undefined || x === false) continue;
    if (typeof x !== "object" || x instanceof Node) e.append(x);
    else for (const [k, v] of Object.entries(x)) attribute(e, k, v);
  }
  return e;
}

function attribute(e, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (typeof value === "function") e.addEventListener(name.slice(2), value);
  else e.setAttribute(name, value === true ? "" : value);
}

// data makes an element of a text that somebody else wrote. Its direction does not change that of
// the line around it, and characters that are not seen are named.
export const data = (text) => h("bdi", seen(text));

// seen names the characters of a text that are not seen, but for joiners, which are parts of words.
// A text of several lines keeps its lines.
export const seen = (text, lines) => String(text ?? "").replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => "\u200c\u200d".includes(c) || lines && "\n\t".includes(c) ? c
  : `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

export const number = (n) => new Intl.NumberFormat(locale).format(n);
export const precise = (n) => new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 }).format(n);
export const short = (n) => new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 }).format(n);
export const rate = (n) => new Intl.NumberFormat(locale, { maximumFractionDigits: n < 10 ? 1 : 0 }).format(n);

const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

// span returns a time span in words, in its largest unit.
export function span(seconds) {
  const [unit, size] = units.find(([, size]) => seconds >= size) ?? units.at(-1);
  const n = Math.floor(seconds / size);
  return new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "long" }).format(n);
}

export const when = (date) => new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "long" }).format(new Date(date));
export const clock = (date) => new Intl.DateTimeFormat(locale, { timeStyle: "medium" }).format(new Date(date));
export const minute = (date) => new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(new Date(date));
export const time = (date) => h("time", { datetime: new Date(date).toISOString() }, when(date));

let ids = 0;

// field makes a label with its control, and a hint under it.
export function field(label, control, hint) {
  const id = `f${++ids}`;
  if (!control.id) control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}h`);
  return h("div.field", h("label", { for: control.id }, label), control, hint && h("p.hint", { id: `${id}h` }, hint));
}

export const select = (attributes, options) => h("select", attributes,
  options.map(([value, label]) => h("option", { value, selected: value === (attributes.value ?? "") }, label)));

// facts makes a list of names and values, without those that are empty.
export const facts = (...pairs) => h("dl.facts", pairs.filter((p) => p && p[1] !== "" && p[1] !== undefined)
  .map(([name, ...value]) => h("div", h("dt", name), h("dd", value))));

export const chip = (tone, text) => h(`span.chip.${tone}`, text);
