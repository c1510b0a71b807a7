/** Addresses of resources. The tool result gives the id; the configuration gives the host. */
import { FetchError, NotConfiguredError, ParseError } from "./errors.ts";
import type { Transport } from "./transport.ts";

const LONGEST_URI = 512;
/** The id is one path segment that needs no escaping, so it cannot change another part of a URL. */
const URI = /^([a-z][a-z0-9+.-]*):\/\/(?:[a-z0-9][\w.-]*\/)*([\w-]{1,128})$/i;

const ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/** Characters of an id before its checksum: 160 random bits. */
const RANDOM = 27;
const ID_LENGTH = RANDOM + 6;
const LONGEST_WORD = 96;
/** The largest prime below 62**6, so that a remainder has six digits of the alphabet. */
const PRIME = 56_800_235_581;
const DOMAIN = "dualsql resource id ";
const WORD = new RegExp(`(?<![0-9A-Za-z])[0-9A-Za-z]{${ID_LENGTH},${LONGEST_WORD}}(?![0-9A-Za-z])`, "g");
const LINE_BREAK = String.raw`[\\=]?(?:(?:\r\n?|\n){1,2}|\\+(?:r(?:\\+n)?|n)|%0D(?:%0A)?|%0A)[ \t>]{0,40}`;
/** A word over several lines of fixed width, as terminals and mails break it. Lines of a table are cells. */
const BROKEN_WORD = new RegExp(
  `(?<![0-9A-Za-z])[0-9A-Za-z]{1,${ID_LENGTH + 2}}(?:${LINE_BREAK}[0-9A-Za-z]{1,${ID_LENGTH}})+`,
  "g",
);
const BETWEEN_LINES = new RegExp(LINE_BREAK, "g");

/** The last segment of `scheme://.../id`; undefined if the URI does not have that form. */
export function resourceId(uri: string): string | undefined {
  return uri.length <= LONGEST_URI ? URI.exec(uri)?.[2] : undefined;
}

/** The id of a resource.
 *
 * @throws {ParseError} the URI has none.
 */
export function requiredId(uri: string): string {
  const id = resourceId(uri);
  if (id === undefined) throw new ParseError("The resource's URI has no id that can be fetched.");
  return id;
}

/** The URI of the resource whose id is the last segment of a URL. */
export function uriOfURL(url: string): string | undefined {
  const uri = `resource://${url.slice(url.lastIndexOf("/") + 1)}`;
  return resourceId(uri) === undefined ? undefined : uri;
}

/** Whether it is an id with its checksum, as one of 62**6 random words is. */
export function isChecked(id: string): boolean {
  if (id.length !== ID_LENGTH) return false;
  let remainder = 0;
  for (const character of DOMAIN + id.slice(0, RANDOM)) remainder = (remainder * 256 + character.charCodeAt(0)) % PRIME;
  for (const digit of id.slice(RANDOM)) {
    if (digit !== ALPHABET[remainder % ALPHABET.length]) return false;
    remainder = Math.floor(remainder / ALPHABET.length);
  }
  return true;
}

/** Whether a text has a word as long as an id. */
export function mayHoldId(text: string): boolean {
  try {
    return text.search(WORD) >= 0 || brokenWords(text).length > 0;
  } catch {
    return true; // it has too many lines for the engine
  }
}

/** A word of a text, with the lines over which it is written. */
type Word = readonly [start: number, word: string, lines: string];

/** The ids with a checksum in a text, also inside longer words and over several lines, each with its position. */
export function* idsIn(text: string): Generator<[start: number, id: string]> {
  const whole = Array.from(text.matchAll(WORD), ({ 0: word, index }): Word => [index, word, ""]);
  const words = [...whole, ...brokenWords(text)].sort(([one], [other]) => one - other);
  for (const [begin, word, lines] of words) {
    // Of digests, only those in base64 have both cases.
    if (!/[a-z]/.test(word) || !/[A-Z]/.test(word)) continue;
    for (let start = 0; start + ID_LENGTH <= word.length; start++) {
      const id = word.slice(start, start + ID_LENGTH);
      if (!isChecked(id) || lines.includes(id)) continue;
      yield [begin + start, id];
      start += ID_LENGTH - 1;
    }
  }
}

/** The words over several lines that are about as long as an id. */
function brokenWords(text: string): Word[] {
  if (!["\n", "\r", "\\n", "\\r", "%0A", "%0D"].some((lineBreak) => text.includes(lineBreak))) return [];
  return Array.from(text.matchAll(BROKEN_WORD), ({ 0: lines, index }): Word => [index, lines.replace(BETWEEN_LINES, ""), lines]).filter(
    ([, word]) => word.length >= ID_LENGTH && word.length <= 2 * ID_LENGTH,
  );
}

/** Whether a URI is an http or https address. */
export function isWeb(uri: string): boolean {
  return /^https?:\/\//i.test(uri);
}

/** A configured address without its last slash. In a page, it may be relative to the page.
 *
 * @throws {NotConfiguredError} it is not a plain http or https address.
 */
export function checkedBaseURL(address: string): string {
  const url = parsed(address, globalThis.location?.href);
  if (!url) throw new NotConfiguredError(`'${address.slice(0, 200)}' is not an http or https address.`);
  if (url.username || url.password) {
    throw new NotConfiguredError("An address holds a user name or password.", { hint: "Pass credentials in token or headers." });
  }
  if (/[?#]/.test(address)) throw new NotConfiguredError("An address ends in a query or fragment; an id has to follow it.");
  return url.href.replace(/\/+$/, "");
}

function parsed(address: string, base?: string): URL | undefined {
  try {
    const url = new URL(address, base);
    return (url.protocol === "http:" || url.protocol === "https:") && url.hostname ? url : undefined;
  } catch {
    return undefined;
  }
}

/** The configured addresses. A tool result can name one of them, and cannot add one. */
export class Origins {
  readonly main: Transport | undefined;
  readonly all: readonly Transport[];

  constructor(main: Transport | undefined, all: readonly Transport[]) {
    this.main = main;
    this.all = all;
  }

  /** The one that a result is fetched from; undefined if its address is not configured. */
  choose(uri: string, url: string | undefined): Transport | undefined {
    const transport = url === undefined ? undefined : this.named(uri, url);
    if (transport) return transport;
    return !this.main && url === undefined && this.all.length === 1 ? this.all[0] : this.main;
  }

  /** Whether `url`, any text, is at the origin of one of them. Without any, no origin is excluded. */
  hasOrigin(url: string): boolean {
    if (!this.all.length) return true;
    const at = parsed(url);
    // Readers differ about the host behind `\@`, and the address of a result names no user.
    return at !== undefined && !at.username && !at.password && this.all.some(({ base }) => parsed(base)?.origin === at.origin);
  }

  /** Whether `url`, any text, is the address of a resource at one of them. */
  hasResource(url: string): boolean {
    const uri = uriOfURL(url);
    return uri !== undefined && this.named(uri, url) !== undefined;
  }

  private named(uri: string, url: string): Transport | undefined {
    return this.all.find((transport) => isSameAddress(transport.urlOf(uri), url));
  }
}

function isSameAddress(ours: string, theirs: string): boolean {
  const one = parsed(ours);
  const other = parsed(theirs);
  if (!one || !other) return false;
  const isPlain = !other.username && !other.password && !/[?#@]/.test(theirs);
  return isPlain && one.origin === other.origin && one.pathname === other.pathname;
}

/** The error for a result whose rows are not at a configured address. */
export function notConfigured(url: string | undefined, hasOrigins: boolean): NotConfiguredError | FetchError {
  if (!hasOrigins || url === undefined) {
    return new NotConfiguredError("The client has no baseUrl, and fetches only from configured addresses.");
  }
  return new FetchError(`The tool result says that its rows are at ${describeHost(url)}, which was not configured.`, {
    code: "UNTRUSTED_ORIGIN",
    hint: 'If that is right, give its address to the client: origins: { "https://...": {} }.',
  });
}

function describeHost(url: string): string {
  const host = parsed(url)?.hostname;
  if (!host) return "an address that cannot be read";
  const kind = KINDS.find(([hosts]) => hosts.test(host))?.[1];
  return kind ? `'${host.slice(0, 100)}', ${kind}` : `'${host.slice(0, 100)}'`;
}

/** Of host names as URL writes them: IPv4 in four decimal numbers, IPv6 in brackets. */
const KINDS: readonly (readonly [RegExp, string])[] = [
  [/^(169\.254\.\d+\.\d+|\[fe[89ab].*)$/, "a link-local address"],
  [/^(localhost|.*\.(localhost|local|internal)|(0|10|127|192\.168|172\.(1[6-9]|2\d|3[01]))\.[\d.]+|\[(::1?|f[cd].*)\])$/, "a private address"],
];
