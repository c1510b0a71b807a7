// In a page of another origin than the server's: what the client gives an application in a browser.
export async function read(given) {
  const { DualClient } = await import("/client/index.js");
  const result = new DualClient({ origins: { [given.baseUrl]: { token: given.token } } }).parse(given.toolResult, { strict: true });
  const rows = await result.fetchAll();
  const paged = [];
  for await (const { data } of result.pages({ limit: 250 })) paged.push(...data);
  const cut = await new DualClient({ baseUrl: given.cutUrl, token: given.token, retry: { first: 1, longest: 2 } }).parse(given.toolResult).fetchAll();
  const file = await result.download("csv", { columns: ["id"] });
  const code = await result.page({ sort: "nope" }).catch((error) => [error.code, typeof error.requestId]);
  await result.pin();
  const tagged = (value) => {
    if (Array.isArray(value)) return value.map(tagged);
    if (typeof value === "object" && value !== null) return Object.entries(value).map(([name, item]) => [name, tagged(item)]);
    return typeof value === "bigint" || Number.isInteger(value) ? `int:${BigInt(value)}` : value;
  };
  return JSON.stringify({
    rows: tagged(rows), paged: tagged(paged), cut: tagged(cut), file: file.filename, text: await (await file.blob()).text(), code,
    pinned: result.expiresAt,
  });
}

export async function refused(given) {
  const { DualClient } = await import("/client/index.js");
  const errors = [];
  for (const options of [{ baseUrl: given.baseUrl, token: given.token }, { baseUrl: `${location.origin}/redirect`, token: given.token }]) {
    await new DualClient(options).parse(given.toolResult).page().catch((error) => errors.push([error.name, error.code, error.message]));
  }
  return errors;
}
