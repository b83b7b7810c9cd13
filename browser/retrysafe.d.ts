// Types of retrysafe.js. What each does and does not protect against: docs/browser.md.

/** What is told before each further try. */
export interface Retry {
  /** How many tries were made. */
  n: number;
  /** Milliseconds until the next one; while the browser is offline, after it is online again. */
  wait: number;
  /** Whether the next try waits until the browser is online. */
  offline: boolean;
  /** The answer of the last try, if there was one. */
  res?: Response;
  /** Why the last try had no answer. */
  error?: unknown;
}

export interface FetchOptions {
  /** A key that the application made, for example of an order's id. It is neither stored nor bound to the content. */
  key?: string;
  /** Whose action it is, for example the id of the user who is logged in: nobody else finds its key. */
  scope?: string;
  /** The field of the key; default Idempotency-Key. */
  header?: string;
  /** The most tries; default 4. Those that could not be sent since the browser was offline do not count. */
  max?: number;
  /** Milliseconds for all tries and waits together; default 60000. */
  total?: number;
  /** Milliseconds, the most that is waited before the second try; it doubles with each. Default 300. */
  minWait?: number;
  /** Milliseconds, the most that it doubles to; default 10000. Retry-After comes on top. */
  maxWait?: number;
  /** Milliseconds for which the same call gets the final answer again, and sends nothing; default 1000. */
  hold?: number;
  /** Called before each further try. */
  onRetry?: (retry: Retry) => void;
}

export interface EnhanceOptions {
  /** Sends the form in place of the browser; the button comes back when the promise settles. */
  send?: (form: HTMLFormElement, submitter: HTMLElement | null) => Promise<unknown>;
  /** Where a one-time token is fetched with POST, for example /.retrysafe/tokens, if the hidden field is empty. */
  token?: string | URL;
  /** Puts a random key into the hidden field if it is empty. */
  key?: boolean;
  /** The name of the hidden field; default idempotency_key. It is made if the form has none and one is needed. */
  field?: string;
  /** The element that says what goes on; default: a new output element behind the form. One of your own needs role="status". */
  status?: HTMLElement;
  /** The texts of the status. */
  texts?: { busy?: string; failed?: string };
  /** Milliseconds after which the button comes back by itself; default 30000. */
  giveBack?: number;
  /** Told why the form was not sent: no token, or send was rejected. */
  onError?: (error: unknown) => void;
}

/**
 * Sends an action, by POST unless init says otherwise, and again with the same key until it is answered. Calls at once with the same
 * content share one request, the first one's options and signal. Resolves to the last answer, whatever its status, read whole; rejects if
 * there is none: it may have been done then, and the same action again has the same key.
 */
export declare function fetchOnce(action: string, url: string | URL, init?: RequestInit, opts?: FetchOptions): Promise<Response>;

/** Whether an action was sent in this tab and has no answer yet. */
export declare function pending(action: string, scope?: string): boolean;

/** Gives up the keys of an action: the next press is a new action, and may do it a second time. */
export declare function forget(action: string, scope?: string): void;

/** Gives up the keys of all actions in this tab, whosever they are: for the logout. */
export declare function forgetAll(): void;

/** A new random key: 128 bits, 32 characters. */
export declare function newKey(): string;

/** Guards a form: one press, one submit, and a button that shows it. Returns a function that gives the button back. */
export declare function enhance(form: HTMLFormElement, opts?: EnhanceOptions): () => void;
