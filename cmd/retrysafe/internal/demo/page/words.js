// What happened, in words for somebody who has never heard of any of this.
export const money = (cents) => `$${(cents / 100).toFixed(2)}`;

export function verdict(payments, cents) {
  if (payments === null) return { tone: "none", big: "The shop does not answer", small: "", brief: "?" };
  const n = payments.length;
  const total = payments.reduce((sum, payment) => sum + payment.cents, 0);
  if (n === 0) return { tone: "none", big: "Not charged yet", small: `${money(0)} in all`, brief: "not yet" };
  if (n === 1) return { tone: "good", big: "✓ Charged once", small: `${money(total)} in all`, brief: "✓ once" };
  return { tone: "bad", big: `✗ Charged ${n}×`, small: `${money(total)} in all, ${money(total - cents)} too much`, brief: `✗ ${n}×` };
}

const codes = {
  "in-progress": "The first press may still be at work, so this one did nothing.",
  "outcome-unknown": "In doubt: nobody knows whether this was done, so it is not done again.",
  "answer-not-kept": "This was done before; its answer is not known.",
  "already-done": "This was done before.",
  "attempt-failed": "The press that this one waited for did nothing. Press again.",
  "resolved-failed": "Refused for good: a person has found out that it failed.",
  "payload-mismatch": "The key belongs to another payment. Nothing was done.",
  "upstream-unreachable": "The shop is away: nothing was done.",
  "store-unavailable": "The records cannot be reached: nothing was done.",
  "shutting-down": "The gateway is stopping: nothing was done.",
  "lease-lost": "Another attempt has taken over.",
};

// told says what a press was told, and in which tone.
export function told(press, isProtected) {
  switch (press.state) {
    case "sent":
      return { tone: "none", status: "…", text: "Waiting for an answer" };
    case "lost":
      return { tone: "warn", status: "lost", text: "No answer came. Was it charged? Whoever pays can only press again." };
    case "away":
      return { tone: "warn", status: "down", text: isProtected ? "The gateway is away: nothing was done." : "The shop is away: nothing was done." };
    case "broken":
      return { tone: "warn", status: "cut", text: "The connection broke midway. Was it charged? Press again to find out." };
  }
  if (press.payment) {
    const text = press.replayed ? `The first answer again: payment ${press.payment}` : `Paid: payment ${press.payment}`;
    return { tone: "good", status: press.status, text, badge: press.replayed ? "replayed" : "" };
  }
  const again = press.retry_after ? ` Press again in ${press.retry_after} s.` : "";
  return { tone: "warn", status: press.status, text: (codes[press.code] ?? "The answer has no payment in it.") + again, code: press.code };
}

export function gateway(state) {
  return state.up ? `The gateway runs, process ${state.pid}.` : "The gateway is down: it was killed.";
}

export function record(state) {
  switch (state.state) {
    case "completed":
      return "Record of the key, on disk: completed, with the answer.";
    case "in-progress":
      return `Record of the key, on disk: in progress; without news, in doubt in ${state.lease_s} s.`;
    case "in-doubt":
      return "Record of the key, on disk: in doubt.";
    case "failed":
      return "Record of the key, on disk: refused for good.";
    case "released":
      return "Record of the key, on disk: nothing was done, the next press runs.";
  }
  return "Record of the key, on disk: none yet.";
}
