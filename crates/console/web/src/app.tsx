// The console: the frame around all pages, and which page is shown.

import { effect, signal } from '@preact/signals';
import { render } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { clock, duration, relative } from './format.ts';
import { about, begin, connection, follow, heardMs, nowMs, parts, past } from './live.ts';
import { Cluster, TAB_NAMES } from './pages/cluster.tsx';
import { Clusters } from './pages/clusters.tsx';
import { FleetPage } from './pages/fleet.tsx';
import { travel } from './pages/history.tsx';
import { SignIn, signOut } from './pages/signin.tsx';
import { clusterPath, parseRoute, type Route, streamOf, timeOf } from './route.ts';
import { Empty, Sign } from './ui/parts.tsx';

/** A console of one user answers no page without a session; one that serves users gives this page to everybody. */
const servesUsers = document.querySelector('meta[name="gregor-users"]') !== null;

const route = signal<Route>(parseRoute(location.pathname));

function go(path: string): void {
  const next = parseRoute(path);
  const [from, to] = [streamOf(route.value), streamOf(next)];
  // Another page of the same cluster shows it at the same time.
  const query = from === to ? location.search : '';
  if (from !== to) past.value = null;
  if (path !== location.pathname) history.pushState(null, '', path + query);
  route.value = next;
}

/** Shows the time that an address asks for. */
function arrive(): void {
  const at = timeOf(location.search);
  const shown = route.value;
  if (at === null || shown.page !== 'cluster') past.value = null;
  else void travel(shown.namespace, shown.name, at);
}

/** Links to our own pages are followed without loading the page anew. */
function onClick(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!link || link.origin !== location.origin || link.target !== '' || link.hash !== '') return;
  event.preventDefault();
  go(link.pathname);
}

function App() {
  const main = useRef<HTMLElement>(null);
  const shown = route.value;
  const place = shown.page === 'cluster' ? clusterPath(shown.namespace, shown.name, shown.tab) : shown.page;
  const before = useRef(place);
  // Whoever goes to another page with the keyboard or a screen reader begins at its title.
  useEffect(() => {
    if (before.current !== place) {
      main.current?.querySelector<HTMLElement>('h1')?.focus();
      window.scrollTo(0, 0);
    }
    before.current = place;
  }, [place]);
  return (
    <>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="frame">
        <a class="brand" href="/">
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <circle cx="16" cy="16" r="13" />
            <path d="M22.5 11.5a8 8 0 1 0 1.5 5.5h-7" />
          </svg>
          Gregor
        </a>
        <Trail />
        <User />
        <Status />
      </header>
      <main id="content" ref={main} tabIndex={-1}>
        <Banners />
        <Page />
      </main>
    </>
  );
}

/** The user, in a console that serves several. */
function User() {
  const user = about.value?.user;
  if (!user || connection.value === 'signedOut') return null;
  return (
    <p class="user">
      <span class="note">{user}</span>
      <button type="button" class="link" onClick={() => void signOut()}>
        Log out
      </button>
    </p>
  );
}

function Trail() {
  const shown = route.value;
  if (shown.page !== 'cluster') {
    if (!about.value?.fleet) return <span class="trail" />;
    return (
      <nav class="trail" aria-label="Pages">
        <a href="/" {...(shown.page === 'clusters' ? { 'aria-current': 'page' as const } : {})}>
          Clusters
        </a>
        <a href="/fleet" {...(shown.page === 'fleet' ? { 'aria-current': 'page' as const } : {})}>
          Fleet
        </a>
      </nav>
    );
  }
  return (
    <nav class="trail" aria-label="Breadcrumb">
      <a href="/">Clusters</a>
      <span aria-hidden="true">/</span>
      <span class="here">{shown.name}</span>
    </nav>
  );
}

function Page() {
  const shown = route.value;
  if (connection.value === 'signedOut' && servesUsers) return <SignIn />;
  if (connection.value === 'signedOut') {
    return (
      <Empty title="This browser has no session" tone="warn">
        <p>
          The console was started anew, or in another place. Open the address that <code>gregor console</code> has
          printed.
        </p>
      </Empty>
    );
  }
  switch (shown.page) {
    case 'clusters':
      return <Clusters />;
    case 'fleet':
      return <FleetPage />;
    case 'cluster':
      return <Cluster namespace={shown.namespace} name={shown.name} tab={shown.tab} />;
    case 'unknown':
      return (
        <Empty title="There is no such page" tone="warn">
          <p>
            <a href="/">All clusters</a>
          </p>
        </Empty>
      );
  }
}

function Status() {
  const { failing } = parts.value;
  const live = about.value?.live ?? true;
  const [tone, word] = (() => {
    switch (connection.value) {
      case 'live':
        if (failing) return ['bad', 'Not observed'] as const;
        return live ? (['good', 'Live'] as const) : (['mute', 'Snapshot'] as const);
      case 'connecting':
        return ['busy', 'Connecting'] as const;
      case 'lost':
        return ['bad', 'Disconnected'] as const;
      case 'signedOut':
        return ['warn', 'No session'] as const;
    }
  })();
  return (
    <p class={`connection ${tone}`} role="status">
      <Sign tone={tone} />
      {word}
    </p>
  );
}

/** What is wrong with what is shown. */
function Banners() {
  const { failing, summary } = parts.value;
  const silent = past.value === null ? summary?.operatorSilentSinceMs : null;
  return (
    <div aria-live="polite">
      {connection.value === 'lost' && (
        <p class="banner bad">
          <Sign tone="bad" />
          <span>
            The console does not answer: does <code>gregor console</code> still run? What is shown is of{' '}
            {clock(heardMs.value)}. This page connects again by itself.
          </span>
        </p>
      )}
      {connection.value === 'live' && silent != null && (
        <p class="banner bad">
          <Sign tone="bad" />
          <span>
            The operator does not run: it has not renewed its Lease for {duration(nowMs.value - silent)}. Nothing is
            changed until it is back.
          </span>
        </p>
      )}
      {connection.value === 'live' && failing && (
        <p class="banner bad">
          <Sign tone="bad" />
          <span>
            The cluster could not be observed, first {relative(failing.sinceMs, nowMs.value)}: {failing.message}. What
            is shown is older. The next observation is made by itself.
          </span>
        </p>
      )}
    </div>
  );
}

function titleOf(shown: Route): string {
  if (shown.page === 'fleet') return 'Fleet · Gregor';
  return shown.page === 'cluster' ? `${shown.name}: ${TAB_NAMES[shown.tab]} · Gregor` : 'Clusters · Gregor';
}

addEventListener('popstate', () => {
  route.value = parseRoute(location.pathname);
  arrive();
});
document.addEventListener('click', onClick);
effect(() => {
  document.title = titleOf(route.value);
  follow(streamOf(route.value));
});
begin();
arrive();
const root = document.getElementById('root');
if (root) render(<App />, root);
