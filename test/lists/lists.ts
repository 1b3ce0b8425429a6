// A data directory with a sending domain, for tests of list imports: audiences, files, and their results.
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../../src/base/clock.ts'
import { addAudience } from '../../src/campaigns/audiences.ts'
import type { Store } from '../../src/store/database.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { Commands, NOWHERE } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'

export interface Person {
  email: string
  name: string | null
  status: string
  custom_fields: Record<string, unknown>
  preferences: Record<string, unknown> | null
}

export class Lists {
  readonly folder = temporaryDirectory('lists')
  readonly data = join(this.folder, 'data')
  readonly config = join(this.folder, 'here.toml')
  readonly commands: Commands
  #files = 0

  constructor() {
    writeFileSync(
      this.config,
      `hostname = "mx.here.test"\ndata_dir = ${JSON.stringify(this.data)}\nhttp.listen = "127.0.0.1:1"\n${NOWHERE}[dns]\nservers = ["127.0.0.1:1"]\n`,
    )
    this.commands = new Commands(this.folder, ['--config', this.config])
  }

  async open(): Promise<void> {
    makeInstallation(this.data)
    await this.commands.json('user', 'add', 'ann@owner.test')
    await this.commands.json('domain', 'add', 'here.test', '--user', 'ann@owner.test')
  }

  async close(): Promise<void> {
    await this.commands.close()
    rmSync(this.folder, { recursive: true })
  }

  async within<T>(work: (store: Store) => Promise<T> | T): Promise<T> {
    const store = openStore(this.data)
    try {
      return await work(store)
    } finally {
      store.close()
    }
  }

  /** Adds a sending domain. Returns its name. */
  async domain(name: string): Promise<string> {
    await this.commands.json('domain', 'add', name, '--user', 'ann@owner.test')
    return name
  }

  /** Creates an audience. Returns its id. */
  audience(name = 'Readers', domain = 'here.test'): Promise<string> {
    return this.within(async (store) => {
      const owner = store.first<{ key: number; user_key: number }>(
        raw('select key, user_key from domains where name = ?', [domain]),
      )!
      const { id } = await addAudience({ store, clock: systemClock }, owner, { name })
      return id
    })
  }

  file(content: string | Uint8Array, name = `list-${++this.#files}.csv`): string {
    const path = join(this.folder, name)
    writeFileSync(path, content)
    return path
  }

  people(audience: string): Promise<Person[]> {
    return this.within((store) =>
      store
        .all<Record<keyof Person, string | null>>(
          raw(
            `select c.email, c.name, c.status, c.custom_fields, c.preferences from contacts c
             join audiences a on a.key = c.audience_key where a.id = ? order by c.email`,
            [audience],
          ),
        )
        .map(({ custom_fields, email, name, preferences, status }) => ({
          email: email!,
          name,
          status: status!,
          custom_fields: JSON.parse(custom_fields ?? '{}') as Record<string, unknown>,
          preferences: preferences === null ? null : (JSON.parse(preferences) as Record<string, unknown>),
        })),
    )
  }

  /** "address reason scope", in the order of addresses. */
  suppressed(domain = 'here.test'): Promise<string[]> {
    return this.within((store) =>
      store
        .all<{ line: string }>(
          raw(
            `select s.email || ' ' || s.reason || ' ' || s.scope as line from suppressions s join domains d on d.key = s.domain_key
             where d.name = ? order by 1`,
            [domain],
          ),
        )
        .map(({ line }) => line),
    )
  }
}
