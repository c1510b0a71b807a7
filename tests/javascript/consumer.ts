// A TypeScript application. Each line behind "@ts-expect-error" must not compile.
import { DualClient, FetchError, type Page, type Row } from "dualsql-client";

export async function everyRow(toolResult: unknown, signal: AbortSignal): Promise<Row[]> {
  const client = new DualClient({ baseUrl: "https://api.example.com/resources", token: async () => "token", timeout: 5_000 });
  const result = client.parse(toolResult);
  if (!result) return [];
  const total: number | null = result.totalCount;
  const pages: Page[] = [];
  for await (const page of result.pages({ limit: 100, sort: "-earnings", filters: { column: "state", op: "eq", value: "NJ" }, signal })) {
    pages.push(page);
  }
  for await (const rows of result.stream({ columns: ["state"], typed: true })) console.log(rows.length, total);
  const file: ReadableStream<Uint8Array> = (await result.download("parquet")).body;
  await file.cancel();
  try {
    await result.pin();
  } catch (error) {
    if (error instanceof FetchError && error.status === 410) console.log(error.code, error.hint, error.requestId);
  }
  const encodings = pages[0]?.columns.map(({ encoding }) => encoding === "integer-string") ?? [];
  return encodings.length ? result.fetchAll({ limit: 10 }) : client.parse(toolResult, { strict: true }).sample;
}

export const mistakes = [
  // @ts-expect-error: an unknown option
  () => new DualClient({ base_url: "" }),
  // @ts-expect-error: limit is a number
  (client: DualClient) => client.open("").page({ limit: "7" }),
  // @ts-expect-error: an unknown format
  (client: DualClient) => client.open("").download("xml"),
  // @ts-expect-error: an unknown operator
  (client: DualClient) => client.open("").pages({ filters: { column: "a", op: "like", value: "x" } }),
  // @ts-expect-error: parse may find nothing
  (client: DualClient) => client.parse({}).name,
  // @ts-expect-error: an unknown encoding
  (page: Page) => page.columns[0]?.encoding === "bigint",
];
