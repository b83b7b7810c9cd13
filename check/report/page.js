// Copies requests to the clipboard. Without this script the page is complete, and has no buttons.
"use strict";

const said = document.getElementById("said");

/** Copies text also where the page is not a secure context. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

for (const button of document.querySelectorAll("button.copy")) {
  const text = button.firstElementChild, label = text.textContent;
  let back;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const done = await copy(document.getElementById(button.dataset.from).textContent);
    button.focus();
    text.textContent = done ? "Copied" : "Not copied";
    said.textContent = done ? "Copied." : "The browser did not allow to copy. Select the text.";
    clearTimeout(back);
    back = setTimeout(() => { text.textContent = label; said.textContent = ""; }, 2000);
  });
}
