// The reader's language: what the address says, or else what was chosen before, or else what the browser prefers.
import table from "./texts.js";

const remembered = "retrysafe-language";
const known = (tag) => ["zh", "en"].find((one) => tag?.toLowerCase().startsWith(one));

function stored() {
  try {
    return localStorage.getItem(remembered);
  } catch {
    return null; // the browser stores nothing for this page
  }
}

const inAddress = () => new URLSearchParams(location.search).get("lang");

export const lang = [inAddress(), stored(), ...navigator.languages].map(known).find(Boolean) ?? "en";

const texts = Object.fromEntries(table.trim().split("\n").map((line) => line.split("|")).map(([key, en, zh]) => [key, lang === "zh" ? zh : en]));

// has reports whether there is a text.
export const has = (key) => key in texts;

// t returns a text with its values.
export const t = (key, values = {}) => (texts[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");

// count returns the text for a number: key.one or key.many.
export const count = (key, n) => (n === 1 ? t(`${key}.one`) : t(`${key}.many`, { n }));

// write fills in the texts of the page: data-t is an element's text, data-t-NAME its attribute NAME. An element inside with data-slot=x stands at {x}.
export function write() {
  document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
  document.title = t("title");
  for (const element of document.querySelectorAll("[data-t]")) {
    const slots = Object.fromEntries([...element.children].filter((e) => e.dataset.slot).map((e) => [e.dataset.slot, e]));
    element.replaceChildren(...texts[element.dataset.t].split(/\{(\w+)\}/).map((part, i) => (i % 2 ? slots[part] : part)));
  }
  for (const [name, data] of [["aria-label", "tAriaLabel"], ["data-empty", "tEmpty"]]) {
    for (const element of document.querySelectorAll(`[data-t-${name.replace("data-", "")}]`)) element.setAttribute(name, t(element.dataset[data]));
  }
}

// wireLanguage makes the button of the other language.
export function wireLanguage(button) {
  const other = lang === "zh" ? "en" : "zh";
  button.lang = other === "zh" ? "zh-CN" : "en";
  button.textContent = other === "zh" ? "中文" : "English";
  button.hidden = false;
  button.addEventListener("click", () => {
    const address = new URL(location.href);
    address.searchParams.delete("lang");
    try {
      localStorage.setItem(remembered, other);
    } catch {
      address.searchParams.set("lang", other);
    }
    if (address.href === location.href) location.reload();
    else location.replace(address);
  });
}
