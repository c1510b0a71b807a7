/** Links to results in texts, known by the checksums of their ids in any encoding that keeps letters and digits. */
import { idsIn, isWeb, resourceId } from "./addresses.ts";

export type URLPart = "resource" | "origin";
/** Whether a URL is that of a resource at a configured address, or at the origin of one. */
export type HasAddress = (url: string, part: URLPart) => boolean;

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
  isAnnounced: boolean;
  beginsParagraph: boolean;
  isInResource: boolean;
}

/** Links of one text; the last ones. */
const MOST_LINKS = 1_000;
/** Characters before an id that say what it is. */
const BEFORE = 400;
const URI = /([a-z][a-z0-9+.-]{0,31}):\/\/(?:[a-z0-9[][\w.:@~\]-]{0,99}\/){0,8}$/i;
const ADDRESS = /https?:\/\/[^\s"'<>`\\]*$/i;
const SENTENCE =
  /((?:^|\n[ \t\r]*\n)\s*)?(?:(?:The|Once the query has run, the) application gets every row from|Rows for the application:)\s+[<([`*_]{0,4}$/;
const IN_RESOURCE = /\bresource\b(?:\W+\w{1,14}){0,6}?\W+ur[il]\b(?:\W+\w{1,14}){0,3}?\W*$/i;

/**
 * The links of a text, one for each result, and whether the text names them by the sentence of `dualsql`.
 *
 * Such sentences are paragraphs: then only those count. Where the paragraphs are lost, the last sentence counts. In a
 * structure that is not read as one, such as a truncated one, the links of its `resource` count.
 */
export function linksIn(text: string, has: HasAddress): { links: Link[]; isAnnounced: boolean } {
  const links = [...idsIn(text)].slice(-MOST_LINKS).flatMap(([start, id]) => linkAt(text, start, id, has) ?? []);
  const announced = links.filter((link) => link.isAnnounced);
  const candidates = [announced.filter((link) => link.beginsParagraph), announced.slice(-1), links.filter((link) => link.isInResource)];
  const chosen = candidates.find((each) => each.length) ?? links;
  return {
    links: [...new Set(chosen.map(({ id }) => id))].map((id) => ({
      id,
      uri: links.find((link) => link.id === id && link.uri)?.uri ?? `resource://${id}`,
      url: links.find((link) => link.id === id && link.url)?.url,
    })),
    isAnnounced: announced.length > 0,
  };
}

/** The link at a position; undefined for a URL at another origin. */
function linkAt(text: string, start: number, id: string, has: HasAddress): Mention | undefined {
  // A text that was cut here does not start here.
  const before = (start > BEFORE ? "…" : "") + decoded(text.slice(Math.max(start - BEFORE, 0), start));
  const own = URI.exec(before);
  const address = ADDRESS.exec(before);
  const written = own && !isWeb(own[0]) ? `${own[0]}${id}` : undefined;
  const url = address && written === undefined ? `${address[0]}${id}` : undefined;
  if (url !== undefined && !has(url, "origin")) return undefined;
  const found = written === undefined ? address : own;
  const said = found ? before.slice(0, found.index) : before;
  const sentence = SENTENCE.exec(said);
  return {
    id,
    uri: written !== undefined && resourceId(written) === id ? written : undefined,
    url,
    isAnnounced: sentence !== null,
    beginsParagraph: sentence?.[1] !== undefined,
    isInResource: IN_RESOURCE.test(said),
  };
}

const REFERENCES: Record<string, string> = { amp: "&", quot: '"', apos: "'", lt: "<", gt: ">", sol: "/", colon: ":", nbsp: " " };

/** Without percent-encoding, character references and backslashes, each up to two deep. */
function decoded(text: string): string {
  let plain = text;
  for (let depth = 0; depth < 2; depth++) {
    plain = plain
      .replace(/%([2-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
      .replace(/%0a/gi, "\n")
      .replace(/&(?:#(\d{1,6})|#x([0-9a-f]{1,5})|([a-z]+));/gi, (whole, decimal?: string, hex?: string, name?: string) =>
        name ? (REFERENCES[name.toLowerCase()] ?? whole) : String.fromCharCode(decimal ? Number(decimal) : parseInt(hex ?? "", 16)),
      );
  }
  return plain.replace(/\\+(?:u00|x)2f/gi, "/").replace(/(?:\\+r)?\\+n/g, "\n").replaceAll("\\", "");
}
