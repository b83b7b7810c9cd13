// copy puts text on the clipboard and says so on the button. Where the browser has no clipboard for us, the text is shown selected.
export async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    byHand(text);
    return;
  }
  const label = button.dataset.label ??= button.textContent;
  button.textContent = "Copied";
  document.getElementById("said").textContent = "Copied";
  clearTimeout(button.timer);
  button.timer = setTimeout(() => { button.textContent = label; }, 2000);
}

function byHand(text) {
  const area = document.getElementById("by-hand-text");
  area.value = text;
  document.getElementById("by-hand").showModal();
  area.focus();
  area.select();
}
