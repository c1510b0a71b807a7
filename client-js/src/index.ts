/** The application's half of the dual response pattern: a tool result in, every row out. */
export { DualClient, type ClientOptions } from "./client.ts";
export { DualError, FetchError, NotConfiguredError, ParseError } from "./errors.ts";
export { parseJSON } from "./json.ts";
export {
  DualResult,
  type CallOptions, type Metadata, type Page, type PageOptions, type PagesOptions, type Question, type RowOptions, type Sort,
  type SqlParameters, type StreamOptions,
} from "./result.ts";
export type { Download } from "./stream.ts";
export type { Retry } from "./budget.ts";
export type { OriginOptions, Token } from "./transport.ts";
export type { Column, Condition, Encoding, Profile, Row, SortKey, StreamFormat, TotalCountKind } from "./wire.ts";
