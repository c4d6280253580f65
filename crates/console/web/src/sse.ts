// Server-sent events from the body of a response. EventSource cannot send the header with the key.

export interface ServerEvent {
  name: string;
  data: string;
}

/** Cuts a stream of text into events, wherever the network has cut the text. */
export class EventParser {
  private rest = '';
  private name = '';
  private data: string[] = [];

  /** The events that a piece of text completes. A comment is no event: it only says that the server is alive. */
  push(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop() ?? '';
    for (const raw of lines) {
      const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
      if (line === '') {
        if (this.data.length > 0) events.push({ name: this.name || 'message', data: this.data.join('\n') });
        this.name = '';
        this.data = [];
        continue;
      }
      const colon = line.indexOf(':');
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'event') this.name = value;
      if (field === 'data') this.data.push(value);
    }
    return events;
  }
}
