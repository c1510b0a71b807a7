// The results that were opened in this browser: for people without a token the server has no list.

const KEY = "dualsql.recent";
const MOST = 20;

/** Those that may still be there, the latest first: { url, name, expires }; `expires` is null for a pinned one. */
export function recentResults() {
  try {
    const results = JSON.parse(localStorage.getItem(KEY)) ?? [];
    return results.filter((each) => each.expires === null || new Date(each.expires) > new Date());
  } catch {
    return []; // the browser keeps nothing, or something else wrote there
  }
}

export function remember(result) {
  write([result, ...recentResults().filter((other) => other.url !== result.url)].slice(0, MOST));
}

export function forget(url) {
  write(recentResults().filter((other) => other.url !== url));
}

function write(results) {
  try {
    localStorage.setItem(KEY, JSON.stringify(results));
  } catch {
    // The browser keeps nothing.
  }
}
