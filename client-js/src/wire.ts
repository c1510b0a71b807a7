/** The JSON shapes of the server, by short names; generated from its OpenAPI document in openapi.ts. */
import type { components, paths } from "./openapi.ts";

type Schemas = components["schemas"];
type Body<Path extends keyof paths> = paths[Path] extends {
  post: { requestBody: { content: { "application/json": infer RequestBody } } };
}
  ? RequestBody
  : never;

/** One row: values by the name of their column. */
export type Row = Record<string, unknown>;
/** A column of a result; `encoding` says how its values are written. */
export type Column = Schemas["Column"];
export type Encoding = Column["encoding"];
/** Whether `totalCount` is exact. `capped` is a lower bound. */
export type TotalCountKind = Schemas["Page"]["total_count_kind"];
/** The answer of GET /{id}. */
export type ResourceDescription = Schemas["ResourceDescription"];
/** The answer of GET /{id}/profile. */
export type Profile = Schemas["Profile"];
/** A condition on rows: `{ column: "state", op: "eq", value: "NJ" }`, or conditions joined by and, or, not. */
export type Condition = Schemas["Condition"];
export type PageBody = Body<"/{id}">;
export type RowsBody = Body<"/{id}/rows">;
export type QueryBody = Body<"/{id}/query">;
export type SqlBody = Body<"/{id}/sql">;
export type StreamFormat = NonNullable<RowsBody["format"]>;
/** A key of an order: `{ field: "earnings", order: "desc" }`. */
export type SortKey = Schemas["SortKey"];
