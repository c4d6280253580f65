// The only page without a session: where a user of a console in a cluster logs in.

import { useState } from 'preact/hooks';
import { post, type Refused } from '../api.ts';
import { reconnect } from '../live.ts';
import { Sign } from '../ui/parts.tsx';

export function SignIn() {
  const [token, setToken] = useState('');
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    try {
      const { key } = await post<{ key: string }>('/api/login', { token });
      localStorage.setItem('gregor-key', key);
      setToken('');
      reconnect();
    } catch (error) {
      setFailure((error as Refused).message);
    }
    setBusy(false);
  };
  return (
    <form class="card sign-in" onSubmit={(event) => void send(event)}>
      <h1 tabIndex={-1}>Log in</h1>
      <p class="note">
        Everything is read and changed with the rights of this token. It is kept in the memory of the console until you
        log out, for at most 12 hours.
      </p>
      <label for="token">Bearer token</label>
      <input
        id="token"
        type="password"
        autocomplete="off"
        spellcheck={false}
        required
        value={token}
        onInput={(event) => setToken(event.currentTarget.value)}
      />
      {failure !== null && (
        <p class="answer bad" role="alert">
          <Sign tone="bad" />
          {failure}
        </p>
      )}
      <div class="buttons">
        <button type="submit" class="primary" disabled={busy || token === ''}>
          {busy ? 'Logging in…' : 'Log in'}
        </button>
      </div>
      <p class="note">
        <code>gregor console login ACCOUNT -n NAMESPACE</code> prints a token of a service account, as{' '}
        <code>kubectl create token</code> does.
      </p>
    </form>
  );
}

/** Ends the session, here and in the console. */
export async function signOut(): Promise<void> {
  await post('/api/logout', {}).catch(() => null);
  localStorage.removeItem('gregor-key');
  reconnect();
}
