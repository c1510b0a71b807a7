/** Links to results in texts, known by the checksums of their ids in any encoding that keeps letters and digits. */
import { idsIn, resourceId, type Origins } from "./addresses.ts";

/** A link to a result. */
export interface Link {
  id: string;
  /** Made of the id, if the text has no URI. */
  uri: string;
  /** Its address at a configured origin, if the text has one. */
  url: string | undefined;
}

/** One place of a link in a text. */
interface Mention {
  id: string;
  uri: string | undefined;
  url: string | undefined;
  isWhole: boolean;
  isAnnounced: boolean;
  beginsParagraph: boolean;
  isInResource: boolean;
}

type Occurrence = readonly [start: number, id: string];

/** Links of one text; the last ones. */
const MOST_LINKS = 200;
const MOST_LINKS_IN_ALL = 5_000;
const MOST_CHARACTERS = 4 * 1024 * 1024;
/** Characters at the end of each text that are searched in any case, for one link. */
const RESERVE = 1_024;
/** Characters before an id that say what it is. */
const BEFORE = 400;
const ESCAPED = /(?<!\\)\\+(?:u00|x)([0-9a-f]{2})/gi;
const ESCAPED_BREAK = /(?<!\\)\\+(?:r(?:\\+n)?|n)/g;
/** In the place of an escaped line break, which in a double-quoted text of YAML ends no line of the YAML. */
const TEXT_BREAK = "\v";
const PATH_IN_FORM = "(?:[a-z0-9.~:/_-]|%(?:25)?(?:2F|5F|7E))*$";
/** The space before a URI, as forms encode both, once or twice. A scheme may have a `+` of its own. */
const SPACE_IN_FORM = new RegExp(
  String.raw`\+(?=(?:[a-z0-9.-]|%2B){1,64}%3A${PATH_IN_FORM})|%2B(?=(?:[a-z0-9.-]|%252B){1,64}%253A${PATH_IN_FORM})`,
  "gi",
);
const URI = /([a-z][a-z0-9+.-]{0,31}):\/\/(?:[a-z0-9[][\w.:@~\]-]{0,99}\/){0,8}$/i;
const OF_HOST = /^(?:https?|wss?|ftps?)$/i;
const ADDRESS = /(?:(?:https?|wss?|ftps?):\/\/|(?<![a-z0-9:/])\/\/[a-z0-9.-]+\/)[^\s"'<>`\\|,]*$/i;
const ENDS_ADDRESS = /[\s"'<>`\\|,]/;
const SENTENCE =
  /(?:(?:The|Once\s+the\s+query\s+has\s+run,\s+the)\s+application\s+gets\s+every\s+row\s+from|Rows\s+for\s+the\s+application:)\s+[<([`*_]{0,4}$/;
/** The scheme, over two lines of fixed width. */
const BROKEN_SCHEME = new RegExp(`${[..."resource://"].join(String.raw`(?:[\n\v][\s>|]{0,40})?`)}$`);
const IN_RESOURCE = /\bresource\b(?:\W+\w{1,14}){0,6}?\W+ur[il]\b(?:\W+\w{1,14}){0,3}?\W*$/i;

/** Between a name and its value. With spaces around its `=`, it is a condition, as SQL has them. */
const IS = String.raw`\b['"]{0,5}(?:[=>]|\s{0,9}:\s{0,9})['"]{0,5}`;
const ARGUMENTS_ =
  String.raw`(?:\b(?:arguments|args|kwargs|(?:tool|raw|action)[_ ]?(?:input|args))${IS}` +
  String.raw`|\bto=functions\.[^{}\n]{1,80}|tool\u2581sep\uff5c>[^{}]{0,80})`;
/** What is before the arguments of a call. */
export const ARGUMENTS = new RegExp(`${ARGUMENTS_}$`, "i");
const PERSON = "(?:user|human|system|developer)";
/** The mark of a failure. */
const FAILED =
  String.raw`['"]{0,5}\b(?:is_?error${IS}true|(?:success|succeeded|ok)${IS}false` +
  String.raw`|(?:status|state|type)(?:=|['"]{0,5}\s{0,9}:\s{0,9}['"])['"]{0,5}(?:tool-|output-)*(?:error|failed)(?:-text|-json)?)\b`;
const FAILED_LINE = String.raw`(?:${FAILED}|status: (?:error|failed)\b)`;
/** What is before a link in a quotation or a failure that no parser reads. */
const QUOTED = new RegExp(
  [
    // Arguments: of Python, JSON and others, in XML, and in YAML.
    String.raw`${ARGUMENTS_}\{[^{}\n]*$`,
    String.raw`\b(?:tool_?use|tool_?call|function_?call)\w{0,20}['"(][^{}()\n]*\binput${IS}\{[^{}\n]*$`,
    String.raw`<(?:parameter|arg_value)\b[^<>\n]*>\s{0,9}[^<>\n]*$`,
    String.raw`(?:^|\n)([ \t]*)(?:arguments|args|kwargs|tool_?input):[ \t]*\n(?:\1[ \t][^\n]*\n)*\1[ \t][^\n]*$`,
    // Messages of a person: as an object or a block of text in one, as a model's template and as a transcript.
    String.raw`\b(?:(?:role|type)${IS}|(?:source|from|speaker|author)['"]{0,5}\s{0,9}[:=]\s{0,9}['"])${PERSON}\b` +
      String.raw`[^{}()[\]\n]*(?:\[\{['"]{1,5}type${IS}(?:input_)?text\b[^{}()[\]\n]*)?$`,
    String.raw`(?:^|\n)[ \t]*(?:- )?role: ${PERSON}\n[ \t]+\w{1,20}: [^\n]*$`,
    String.raw`\b(?:user|human|system|retryprompt)\w{0,40}\((?:\w{1,20}=\[)?[^{}()[\]\n]*$`,
    String.raw`<(?:\|\w{1,20}\|>|start_of_turn>|[|\uff5c])${PERSON}(?:_token)?\b(?:[|\uff5c]>|<\|\w{1,20}\|>)?[^<]*$`,
    String.raw`(?:\[INST\]|<<SYS>>)[^[\]<]*$`,
    String.raw`(?:^|\n)(?:### (?:human|user|system|instruction|input):\s{0,9}|(?:human|user): )(?:(?!\w{1,20}(?:=|:\s))[^\n])*$`,
    // Failures: by a mark, in XML, and as the error of a result.
    String.raw`${FAILED}[^})\n]*$`,
    String.raw`<\w{0,20}(?:error|failure|exception)\b[^<]*$`,
    String.raw`\berr(?:or)?['"]{0,5}(?:=|\s{0,9}:\s{0,9})(?:['"]{1,5}(?![\s,;)}\]])[^'"\n]+|\{[^{}\n]*)$`,
    String.raw`\bTraceback \(most recent call last\):\n(?:[^\n]*\n)*[\w.]*(?:Error|Exception): [^\n]*$`,
  ].join("|"),
  "i",
);
/** What SDKs write at the beginning of the text of a failed call. */
const FAILED_CALL = new RegExp(
  String.raw`^\s{0,9}(?:(?:an |i encountered an |encountered )?error(?:: | (?:occurred )?(?:while )?` +
    String.raw`(?:executing|calling|invoking|running|trying to use|from) [^\n]{0,20}\b(?:tool|function)\b)` +
    String.raw`|mcp error |failed to \w{1,20} (?:the )?(?:tool|function)\b|(?:tool|function) call (?:error|failed)\b` +
    String.raw`|invoking [^\n]{1,80} failed\b)`,
  "i",
);
/** Characters behind an id that say whose it is. */
const BEHIND = 600;
/** The role of a message whose text is before it, or the mark of a result whose content is. */
const MARK_BEHIND = new RegExp(
  String.raw`^(?:[^{}()[\]]{0,400}?['"]{1,5}role['"]{1,5}\s{0,9}:\s{0,9}['"]{1,5}${PERSON}\b` +
    String.raw`|[^{(]*?\n[ \t]{0,40}${FAILED_LINE}|[^{(\n]*?(?:['"][ ,]{0,3}|\b(?=is_?error))${FAILED})`,
  "i",
);
/** Brackets, and breaks of lines; before a bracket or a quotation mark, such as those of a literal. */
const IN_LITERAL = /([({[])|([)}\]])|\n(?:[ \t]+(?=(['"({[])))?/g;
/** The end of a text in a literal whose brackets are out of sight, and the field on the next line. */
const NEXT_FIELD = /^[^\n]*['"],\n[ \t]+['"]/;
/** The beginning of a line of YAML: its indent, the marks of list items, and its key. */
const YAML_LINE = /^([ \t]*)((?:-[ \t]+)*)(['"]{0,5}[a-z_][\w-]{0,39}['"]{0,5}:(?:[ \t]|$))?/i;
const MARKED_LINE = new RegExp(String.raw`^[ \t]*(?:-[ \t]+)*${FAILED_LINE}`, "i");

/** A line of YAML. */
interface YAMLLine {
  text: string;
  indent: number;
  /** Behind the marks of its list items. */
  column: number;
  hasKey: boolean;
  /** It has such marks. */
  isItem: boolean;
}

/** Reads texts up to a number of characters and of links in all, and the ends of further texts. */
export class LinkReader {
  /** Those of the texts. */
  readonly links: Link[] = [];
  private readonly origins: Origins;
  private characters = MOST_CHARACTERS;
  private occurrencesLeft = MOST_LINKS_IN_ALL;

  constructor(origins: Origins) {
    this.origins = origins;
  }

  /**
   * Read a text. Returns whether only dual responses count in JSON within it: so they do if the sentence of `dualsql` names its
   * links, and in the text of a failed call, which has none.
   *
   * Such sentences are paragraphs, and in a structure that is not read as one, such as a truncated one, the links of its
   * `resource` are the result's: then only those count. Where the paragraphs are lost, the last sentence counts. Beside a
   * sentence with a whole id, one that is broken over lines may be made of cells.
   */
  read(text: string): boolean {
    const end = text.slice(-Math.max(this.characters, RESERVE));
    this.characters -= end.length;
    const occurrences = lastOf([...idsIn(end)], Math.max(Math.min(MOST_LINKS, this.occurrencesLeft), 1));
    this.occurrencesLeft -= occurrences.length;
    const all = mentionsAt(end, occurrences, this.origins);
    const unbroken = all.filter((each) => each.isWhole);
    const mentions = unbroken.some((each) => each.beginsParagraph) ? unbroken : all;
    const announced = mentions.filter((each) => each.isAnnounced);
    if (!announced.length && FAILED_CALL.test(text)) return true;
    const candidates = [mentions.filter((each) => each.beginsParagraph || each.isInResource), announced.slice(-1)];
    const results = candidates.find((each) => each.length) ?? mentions;
    const links = byId(mentions);
    for (const id of new Set(results.map((each) => each.id))) this.links.push(links.get(id)!);
    return announced.length > 0;
  }
}

/** The last link of a text that is a URI or a URL. */
export function linkIn(address: string, origins: Origins): Link | undefined {
  const [link] = byId(mentionsAt(address, lastOf([...idsIn(address)], 1), origins)).values();
  return link;
}

function lastOf<T>(items: T[], most: number): T[] {
  return items.slice(Math.max(items.length - most, 0));
}

/** One link of all that a text says about one result. */
function byId(mentions: readonly Mention[]): Map<string, Link> {
  const links = new Map<string, Pick<Mention, "uri" | "url">>();
  for (const { id, uri, url } of mentions) {
    const earlier = links.get(id);
    links.set(id, { uri: earlier?.uri ?? uri, url: earlier?.url ?? url });
  }
  return new Map([...links].map(([id, { uri, url }]) => [id, { id, uri: uri ?? `resource://${id}`, url }]));
}

function mentionsAt(text: string, occurrences: readonly Occurrence[], origins: Origins): Mention[] {
  return occurrences.flatMap(([start, id]) => mentionAt(text, start, id, origins) ?? []);
}

/** The link at a position; undefined for a URL at another origin, and for one that may be. */
function mentionAt(text: string, start: number, id: string, origins: Origins): Mention | undefined {
  const before = textBefore(text, start).replace(BROKEN_SCHEME, "resource://");
  const uri = URI.exec(before);
  const own = uri && !OF_HOST.test(uri[1]!) ? uri : null;
  const url = own ? null : ADDRESS.exec(before);
  if (url && !origins.hasOrigin(`${url[0]}${id}`)) return undefined;
  const match = own ?? url;
  // The scheme of a long URL is before these characters.
  if (!match && start > BEFORE && !ENDS_ADDRESS.test(before)) return undefined;
  const wordsBefore = match ? before.slice(0, match.index) : before;
  const sentence = SENTENCE.exec(wordsBefore);
  const isInResource = IN_RESOURCE.test(wordsBefore);
  if (!sentence && !isInResource && isQuoted(wordsBefore, text.slice(start + id.length, start + BEHIND))) return undefined;
  const address = own ? `${own[0]}${id}` : "";
  return {
    id,
    uri: resourceId(address) === id ? address : undefined,
    url: url ? `${url[0]}${id}` : undefined,
    isWhole: text.startsWith(id, start),
    isAnnounced: sentence !== null,
    beginsParagraph: sentence !== null && endsParagraph(wordsBefore.slice(0, sentence.index)),
    isInResource,
  };
}

/** Whether what is there in a text is in a quotation or a failure that no parser reads. */
export function isQuotation(text: string, start: number, end: number): boolean {
  return isQuoted(textBefore(text, start), text.slice(end, end + BEHIND));
}

function textBefore(text: string, start: number): string {
  const before = decode(text.slice(Math.max(start - BEFORE, 0), start).replace(SPACE_IN_FORM, " "));
  return start > BEFORE ? `…${before}` : before; // a text that was cut here does not start here
}

/** Whether a mark says so: on the line of the link, in a bracket around it, or beside a key around it. */
function isQuoted(before: string, behind: string): boolean {
  const isCut = before.startsWith("…");
  const [own, more] = [before.replaceAll("+", " "), decode(behind).replaceAll("+", " ")];
  const [above, below] = [own.replaceAll(TEXT_BREAK, "\n"), more.replaceAll(TEXT_BREAK, "\n")];
  const closed = isCut ? mostClosed(below) || Number(NEXT_FIELD.test(below)) : 0;
  const [line, depth] = inOneLine(above, closed);
  const [rest, , end] = inOneLine(below, isCut ? closed : depth);
  if (QUOTED.test(line) || MARK_BEHIND.test(rest.slice(0, end))) return true;
  if (isBesideFailure(above.split("\n"), below.split("\n"), isCut)) return true;
  return `${own}${more}`.includes(TEXT_BREAK) && isBesideFailure(own.split("\n"), more.split("\n"), isCut);
}

/** A text without the line breaks of a literal, the brackets open at its end, and where the first line of it ends. */
function inOneLine(text: string, open: number): [text: string, depth: number, end: number] {
  let [line, at, depth, end] = ["", 0, open, -1];
  for (const { 0: { length }, 1: opening, 2: closing, 3: literal, index } of text.matchAll(IN_LITERAL)) {
    if (opening || closing) depth = opening ? depth + 1 : Math.max(depth - 1, 0);
    else if (depth === 0) end = end < 0 ? line.length + index - at : end;
    else if (literal) {
      line += `${text.slice(at, index)} `;
      at = index + length;
    }
  }
  line += text.slice(at);
  return [line, depth, end < 0 ? line.length : end];
}

/** How many of the brackets before a text it closes. */
function mostClosed(text: string): number {
  let [depth, least] = [0, 0];
  for (const character of text) {
    depth += Number("([{".includes(character)) - Number(")]}".includes(character));
    least = Math.min(least, depth);
  }
  return -least;
}

/**
 * Whether a failure is marked by a sibling of the key of a link's text, or of a key around it, in YAML; `above` are the
 * lines before the link, the last with the part of its own, `below` those behind it, the first with the rest of its own;
 * if `isCut`, there are more above, or more of the only one.
 */
function isBesideFailure(above: readonly string[], below: readonly string[], isCut: boolean): boolean {
  const [keys, further] = keysAround(above);
  if (keys.some(({ text }) => MARKED_LINE.test(text))) return true;
  const own = `${above[0]}${below[0]}`;
  // Of a text whose line begins out of sight: its end closes a quotation mark that none before it opens.
  const isText = isCut && above.length === 1 && own.endsWith('"') && own.split('"').length % 2 === 0;
  const level = isText ? Infinity : further;
  const columns = keys.map(({ column }) => column);
  let lowest = Infinity;
  for (const line of below.slice(1).filter((text) => text.trim()).map(yamlLine)) {
    lowest = Math.min(lowest, line.indent);
    const isSibling = columns.includes(line.column) || (isCut && line.column <= level);
    if (isSibling && !line.isItem && line.column === lowest && MARKED_LINE.test(line.text)) return true;
    if (!line.hasKey && !line.isItem && line.indent <= Math.max(0, ...columns)) return false;
  }
  return false;
}

/** The lines of keys around a link's text, and beside those `above` it, and the column of a further key; -1 for none. */
function keysAround(above: readonly string[]): [lines: YAMLLine[], level: number] {
  const own = yamlLine(above.at(-1)!);
  const lines = own.hasKey ? [{ ...own, text: "" }] : [];
  let level = own.isItem ? own.indent : own.hasKey ? own.column : own.indent - 1;
  for (const text of above.slice(0, -1).reverse()) {
    if (!text.trim() || text.startsWith("…")) continue;
    const line = yamlLine(text);
    if (line.hasKey && line.column <= level) {
      lines.push(line);
      level = line.isItem ? line.indent : line.column;
    } else if (!line.hasKey && !line.isItem && line.indent <= level) return [lines, -1]; // words of a text
  }
  return [lines, level];
}

function yamlLine(text: string): YAMLLine {
  const [, indent, items, key] = YAML_LINE.exec(text)!; // each part of the pattern is optional
  return { text, indent: indent!.length, column: indent!.length + items!.length, hasKey: key !== undefined, isItem: items !== "" };
}

function endsParagraph(text: string): boolean {
  const words = text.trimEnd();
  return !words || text.slice(words.length).split(/[\n\v]/).length > 2;
}

const REFERENCES: Record<string, string> = { amp: "&", quot: '"', apos: "'", lt: "<", gt: ">", sol: "/", colon: ":", nbsp: " " };

const UTF_8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** Without percent-encoding and character references, up to four deep, and backslashes. */
function decode(text: string): string {
  let plain = text;
  for (let depth = 0; depth < 4; depth++) {
    plain = plain
      .replace(/(?:%[0-9a-f]{2})+/gi, (run) => UTF_8.decode(Uint8Array.from(run.slice(1).split("%"), (hex) => parseInt(hex, 16))))
      .replace(/&(?:#(\d{1,6})|#x([0-9a-f]{1,5})|([a-z]+));/gi, (whole, decimal?: string, hex?: string, name?: string) =>
        name ? (REFERENCES[name.toLowerCase()] ?? whole) : String.fromCharCode(decimal ? Number(decimal) : parseInt(hex ?? "", 16)),
      );
  }
  const lines = plain.replace(ESCAPED, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))).replace(/\r\n?/g, "\n");
  return lines.replace(ESCAPED_BREAK, TEXT_BREAK).replaceAll("\\", "");
}
