// Each line below breaks the document. The compiler complains where it does not find the mistake.
import createClient from "openapi-fetch";
import type { paths } from "./dualsql.js";

const client = createClient<paths>({ baseUrl: "" });
type PageBody = NonNullable<paths["/{id}"]["post"]["requestBody"]>["content"]["application/json"];
const params = { path: { id: "" } };

export const mistakes = () => [
  // @ts-expect-error: limit is a number
  client.POST("/{id}", { params, body: { limit: "7" } }),
  // @ts-expect-error: the id is missing
  client.GET("/{id}", {}),
  // @ts-expect-error: an unknown path
  client.GET("/{id}/row", { params }),
  // @ts-expect-error: an unknown format
  client.GET("/{id}/rows", { params: { ...params, query: { format: "xml" } } }),
  // @ts-expect-error: the collection has no PUT
  client.PUT("/", {}),
];

// @ts-expect-error: an unknown name
export const mistaken: PageBody = { limits: 7 };
