// Requests to the server besides the stream. What it refuses is an error with the sentence that it gives.

import { headers } from './live.ts';

export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export async function get<T>(path: string): Promise<T> {
  return answer<T>(await fetch(path, { headers: headers() }).catch(lost));
}

/** Changes something. The key in the headers is what a page of another site does not have. */
export async function post<T>(path: string, body: unknown): Promise<T> {
  const init = {
    method: 'POST',
    headers: { ...headers(), 'content-type': 'application/json' },
    body: JSON.stringify(body),
  };
  return answer<T>(await fetch(path, init).catch(lost));
}

function lost(): never {
  throw new Refused(0, 'The console does not answer.');
}

async function answer<T>(response: Response): Promise<T> {
  const text = await response.text();
  if (response.ok) return (text === '' ? null : JSON.parse(text)) as T;
  throw new Refused(response.status, sentence(response.status, text));
}

/** What went wrong, in the words of the server if it has some. */
export function sentence(status: number, text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: unknown };
    if (typeof message === 'string' && message !== '') return message;
  } catch {
    // It is no JSON: the server has not come to say why.
  }
  if (status === 401) return 'This browser has no session.';
  return text.trim() === '' ? `The console answered with ${status}.` : text.trim();
}
