// Which page an address means. Every page has an address that can be shared.

export const TABS = ['nodes', 'quorum', 'roll', 'waiting'] as const;
export type Tab = (typeof TABS)[number];

export type Route =
  | { page: 'clusters' }
  | { page: 'cluster'; namespace: string; name: string; tab: Tab }
  | { page: 'unknown' };

export function parseRoute(path: string): Route {
  const parts = path.split('/').filter((part) => part !== '');
  if (parts.length === 0) return { page: 'clusters' };
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
    case 'cluster':
      return `/api/events?namespace=${encodeURIComponent(route.namespace)}&name=${encodeURIComponent(route.name)}`;
    case 'unknown':
      return null;
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return '';
  }
}
