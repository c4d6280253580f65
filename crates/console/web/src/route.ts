// Which page an address means. Every page has an address that can be shared.

export const TABS = ['nodes', 'quorum', 'roll', 'rebalance', 'waiting', 'plan', 'machines'] as const;
export type Tab = (typeof TABS)[number];

export type Route =
  | { page: 'clusters' }
  | { page: 'fleet' }
  | { page: 'cluster'; namespace: string; name: string; tab: Tab }
  | { page: 'unknown' };

export function parseRoute(path: string): Route {
  const parts = path.split('/').filter((part) => part !== '');
  if (parts.length === 0) return { page: 'clusters' };
  if (parts.length === 1 && parts[0] === 'fleet') return { page: 'fleet' };
  const [kind, namespace, name, tab = 'nodes', ...more] = parts.map(decode);
  const known = TABS.find((one) => one === tab);
  if (kind !== 'clusters' || !namespace || !name || known === undefined || more.length > 0) return { page: 'unknown' };
  return { page: 'cluster', namespace, name, tab: known };
}

export function clusterPath(namespace: string, name: string, tab: Tab = 'nodes'): string {
  const path = `/clusters/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  return tab === 'nodes' ? path : `${path}/${tab}`;
}

/** The stream that a page needs; null for one that needs none. */
export function streamOf(route: Route): string | null {
  switch (route.page) {
    case 'clusters':
      return '/api/events';
    case 'fleet':
      return '/api/events?fleet=1';
    case 'cluster':
      return `/api/events?${ofCluster(route.namespace, route.name)}`;
    case 'unknown':
      return null;
  }
}

/** A cluster in the query of a request. */
export function ofCluster(namespace: string, name: string): string {
  return `namespace=${encodeURIComponent(namespace)}&name=${encodeURIComponent(name)}`;
}

/** The time that an address asks for; null for now. */
export function timeOf(search: string): number | null {
  const at = new URLSearchParams(search).get('at');
  const ms = at === null ? Number.NaN : Number(at);
  return Number.isSafeInteger(ms) && ms > 0 ? ms : null;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return '';
  }
}
