// The allowed redirect URIs of OAuth applications: the origins of the configuration, and those that the operator
// allowed by command. Well-known applications are allowed by name. Their documented addresses are listed here, so that
// a new version of Postrider can change them.
import type { Config } from '../../base/config.ts'
import type { Clock } from '../../base/clock.ts'
import { must, OperatorError } from '../../base/errors.ts'
import type { Reader, Store } from '../../store/database.ts'
import { db, statement } from '../../store/query.ts'

/** Hosts of the machine on which a browser runs: codes that are sent there do not cross a network. */
export const LOOPBACK: readonly string[] = ['127.0.0.1', 'localhost', '[::1]']

export interface Allowed {
  /** Any address of these origins. A loopback origin without a port (http://127.0.0.1) allows any port. */
  origins: string[]
  /** The allowed addresses. A final `/*` matches one path segment. A private-use scheme can be allowed only here. */
  addresses: string[]
}

export const PROGRAMS: Readonly<Record<string, Allowed>> = {
  claude: {
    origins: [],
    addresses: ['https://claude.ai/api/mcp/auth_callback', 'https://claude.com/api/mcp/auth_callback'],
  },
  chatgpt: {
    origins: [],
    addresses: ['https://chatgpt.com/connector_platform_oauth_redirect', 'https://chatgpt.com/connector/oauth/*'],
  },
  cursor: { origins: [], addresses: ['cursor://anysphere.cursor-mcp/oauth/callback'] },
  vscode: {
    origins: ['http://127.0.0.1'],
    addresses: ['https://vscode.dev/redirect', 'https://insiders.vscode.dev/redirect'],
  },
  n8n: { origins: [], addresses: ['https://oauth.n8n.cloud/oauth2/callback'] },
}

/** The targets of one entry of the list, or undefined if it is neither an application nor an origin. */
function meaningOf(name: string): Allowed | undefined {
  if (Object.hasOwn(PROGRAMS, name)) return PROGRAMS[name]
  const url = URL.canParse(name) ? new URL(name) : undefined
  const origin =
    url && /^https?:$/.test(url.protocol) && !name.includes('*') && (name === url.origin || name === `${url.origin}/`)
  return origin ? { origins: [url.origin], addresses: [] } : undefined
}

/** The stored form of a name. Throws an OperatorError. */
function keptForm(name: string): string {
  const meaning = meaningOf(name)
  if (!meaning)
    throw new OperatorError(
      `"${name}" is not a known application; use one of ${Object.keys(PROGRAMS).join(', ')}, or an origin such as https://app.example.org (no path, lower case).`,
    )
  return Object.hasOwn(PROGRAMS, name) ? name : must(meaning.origins[0], 'The origin of an application')
}

const names = statement<object>()(() => db.selectFrom('oauth_allowed').selectAll().orderBy('name'))

/** All allowed targets. Read each time, so that a command takes effect at the next request. */
export function allowedNow(reader: Reader, { oauth }: Pick<Config, 'oauth'>): Allowed {
  const parts = reader.all(names({})).flatMap(({ name }) => meaningOf(name) ?? [])
  return {
    origins: [...oauth.redirect_origins, ...parts.flatMap(({ origins }) => origins)],
    addresses: parts.flatMap(({ addresses }) => addresses),
  }
}

export interface AllowedEntry extends Allowed {
  name: string
  /** Null: the entry is from the configuration. */
  created_at: number | null
}

export function listAllowed(reader: Reader, { oauth }: Pick<Config, 'oauth'>): AllowedEntry[] {
  return [
    ...oauth.redirect_origins.map((origin) => ({ name: origin, origins: [origin], addresses: [], created_at: null })),
    ...reader
      .all(names({}))
      .map(({ created_at, name }) => ({ name, ...(meaningOf(name) ?? { origins: [], addresses: [] }), created_at })),
  ]
}

/** Allows an application or an origin, and returns the stored name. Throws an OperatorError for an invalid name. */
export async function allow({ clock, store }: { store: Store; clock: Clock }, given: string): Promise<string> {
  const name = keptForm(given)
  // RFC 9700 §2.6: codes are never sent in clear text over the network.
  const url = Object.hasOwn(PROGRAMS, name) ? undefined : new URL(name)
  if (url && url.protocol !== 'https:' && !LOOPBACK.includes(url.hostname))
    throw new OperatorError(
      `"${name}" is not encrypted; use an https origin, or http only with 127.0.0.1, [::1] or localhost.`,
    )
  await store.write(
    (tx) =>
      void tx.run(
        db
          .insertInto('oauth_allowed')
          .values({ name, created_at: clock.now() })
          .onConflict((conflict) => conflict.doNothing()),
      ),
  )
  return name
}

/** Removes an entry that a command added. Throws an OperatorError if it does not exist. */
export async function disallow({ store }: { store: Store }, given: string): Promise<string> {
  const name = meaningOf(given) ? keptForm(given) : given
  const { changes } = await store.write((tx) => tx.run(db.deleteFrom('oauth_allowed').where('name', '=', name)))
  if (changes === 0)
    throw new OperatorError(
      `"${given}" was not added with "oauth allow"; run "postrider oauth list" to see all, and change entries of the configuration there.`,
    )
  return name
}
