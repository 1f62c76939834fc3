// Requests to the server of the page.

export const element = (id) => document.getElementById(id);

/** Make an element with a class and a text. */
export function make(tag, text = "", kind = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

export function urlOf(what, query = {}) {
  return `/api/${what}?${new URLSearchParams(query)}`;
}

/** The answer as JSON; an error of the server is thrown with its sentence. */
export async function ask(what, query = {}) {
  const answer = await fetch(urlOf(what, query));
  const found = await answer.json().catch(() => ({ error: `the page has no answer (${answer.status})` }));
  if (!answer.ok) throw new Error(found.error);
  return found;
}
