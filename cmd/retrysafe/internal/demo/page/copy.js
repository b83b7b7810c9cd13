// copy puts text on the clipboard and says so on the button. Where the browser has no clipboard for us, the text is shown selected.
import { at } from "./dom.js";
import { t } from "./language.js";

export async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    byHand(text);
    return;
  }
  const label = button.dataset.label ??= button.textContent;
  button.textContent = t("copied");
  at("said").textContent = t("copied");
  clearTimeout(button.timer);
  button.timer = setTimeout(() => { button.textContent = label; }, 2000);
}

function byHand(text) {
  const area = at("by-hand-text");
  area.value = text;
  at("by-hand").showModal();
  area.focus();
  area.select();
}
