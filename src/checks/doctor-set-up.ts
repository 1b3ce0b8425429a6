// Whether somebody has set up this server. One that nobody has set up runs as well, and is of no use: `serve` says so
// in its log, `postrider doctor` in a finding.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../base/config.ts'
import { inImage } from '../base/config-file.ts'
import { execLine } from '../base/container.ts'
import { withStore, type Invocation } from '../commands/open.ts'
import type { Reader } from '../store/database.ts'
import { DATABASE } from '../store/open.ts'
import { db } from '../store/query.ts'
import { warn, type Finding } from './doctor-machine.ts'

/** A finding where nobody is here, or where the server has no name by which others reach it; none elsewhere. */
export function judgeSetUp(store: Reader, { hostname }: Pick<Config, 'hostname'>, image = inImage()): Finding[] {
  const check = 'set-up'
  if (store.first(db.selectFrom('users').select('key').limit(1)) === undefined)
    return [
      warn(
        check,
        'nothing is set up here: there is no user and no domain',
        image
          ? `Start the container with POSTRIDER_HOSTNAME, POSTRIDER_INIT_DOMAIN and POSTRIDER_INIT_EMAIL, or run "${execLine('init', 'asks')}" and restart it.`
          : 'Run "postrider init", and start the server again.',
      ),
    ]
  if (hostname.includes('.')) return []
  return [
    warn(
      check,
      `this server has no full name, only that of the machine ("${hostname}"), and others refuse its mail`,
      image
        ? 'Start the container with POSTRIDER_HOSTNAME, such as mx.example.org.'
        : 'Set "hostname" in the configuration, or POSTRIDER_HOSTNAME, such as mx.example.org, and start the server again.',
    ),
  ]
}

/** The same for a command; a data directory without a database is judged elsewhere. */
export const lookAtSetUp = async (asked: Invocation, config: Config): Promise<Finding[]> =>
  existsSync(join(config.data_dir, DATABASE)) ? withStore(asked, (store) => judgeSetUp(store, config)) : []
