// Types of retrysafe.js. docs/browser.md says what each protects against, and what not.

/** What onRetry gets before each further try. */
export interface Retry {
  /** The tries made so far. */
  n: number;
  /** Milliseconds until the next try; if the browser is offline, counted from when it is online again. */
  wait: number;
  /** Whether the next try waits until the browser is online. */
  offline: boolean;
  /** The answer of the last try, if there was one. */
  res?: Response;
  /** Why the last try had no answer. */
  error?: unknown;
}

export interface FetchOptions {
  /** A key that the application made, for example from an order's id. It is neither stored nor bound to the content. */
  key?: string;
  /** Whose action it is, for example the id of the logged-in user: no other user finds its key. */
  scope?: string;
  /** The header field of the key; default Idempotency-Key. */
  header?: string;
  /** The most tries; default 4. Tries that could not be sent because the browser was offline do not count. */
  max?: number;
  /** Milliseconds for all tries and waits together; default 60000. */
  total?: number;
  /** The longest wait before the second try, in milliseconds; it doubles with each try. Default 300. */
  minWait?: number;
  /** The most that it doubles to, in milliseconds; default 10000. Retry-After is added. */
  maxWait?: number;
  /** Milliseconds for which the same call gets the final answer again, and sends nothing; default 1000. */
  hold?: number;
  /** Called before each further try. */
  onRetry?: (retry: Retry) => void;
}

export interface EnhanceOptions {
  /** Sends the form in place of the browser; the button is enabled again when the promise settles. */
  send?: (form: HTMLFormElement, submitter: HTMLElement | null) => Promise<unknown>;
  /** Where a one-time token is fetched with POST, for example /.retrysafe/tokens, if the hidden field is empty. */
  token?: string | URL;
  /** Puts a random key into the hidden field if it is empty. */
  key?: boolean;
  /** The name of the hidden field; default idempotency_key. It is made if the form has none and one is needed. */
  field?: string;
  /** The element that shows the state; default: a new output element after the form. Your own element needs role="status". */
  status?: HTMLElement;
  /** The texts of the status. */
  texts?: { busy?: string; failed?: string };
  /** Milliseconds after which the button is enabled again by itself; default 30000. */
  giveBack?: number;
  /** Called with the reason why the form was not sent: no token, or send was rejected. */
  onError?: (error: unknown) => void;
}

/**
 * Sends an action, by POST unless init says otherwise, and retries with the same key until it is
 * answered. Concurrent calls with the same content share one request, with the options and the signal
 * of the first call. Resolves to the last answer, whatever its status, read whole. Rejects if there is
 * none: the action may have been done, and the same action again has the same key.
 */
export declare function fetchOnce(action: string, url: string | URL, init?: RequestInit, opts?: FetchOptions): Promise<Response>;

/** Whether an action was sent in this tab and has no answer yet. */
export declare function pending(action: string, scope?: string): boolean;

/** Forgets the keys of an action: the next press is a new action, and may do it a second time. */
export declare function forget(action: string, scope?: string): void;

/** Forgets the keys of all actions in this tab, of all users: for the logout. */
export declare function forgetAll(): void;

/** A new random key: 128 bits, 32 characters. */
export declare function newKey(): string;

/** Guards a form: one press, one submit, and a button that shows it. Returns a function that gives the button back. */
export declare function enhance(form: HTMLFormElement, opts?: EnhanceOptions): () => void;
