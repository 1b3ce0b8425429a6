// Changes settings in the configuration file for an operator in the console. The file is checked as a whole before it
// is written, and written in one step. A server that may not write its file explains which lines to change.
import { accessSync, constants, realpathSync } from 'node:fs'
import { dirname } from 'node:path'
import { configFrom, type Config } from '../base/config.ts'
import { withEntry, withSetting, writeConfig } from '../base/config-edit.ts'
import type { Environment } from '../base/config-environment.ts'
import { OperatorError, refuse } from '../base/errors.ts'
import { readNamed } from '../base/plain-file.ts'
import type { SettingChange } from '../checks/api-settings.ts'
import { demandSettings } from './settings.ts'

export interface ConfigSource {
  /** Undefined if the server runs without a file. */
  file: string | undefined
  environment: Environment
}

const lineOf = ({ key, value }: SettingChange): string => `${key} = ${JSON.stringify(value)}`

/** Whether a process may replace a file: it creates the new one next to it. */
function isWritable(file: string): boolean {
  try {
    accessSync(dirname(realpathSync(file)), constants.W_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Returns the text of a configuration with the changes. Other lines stay as they are. */
const edited = (text: string, changes: readonly SettingChange[]): string =>
  changes.reduce(
    (changed, each) =>
      each.section === undefined
        ? withSetting(changed, each.key, String(each.value))
        : withEntry(changed, each.section, lineOf(each)),
    text,
  )

/** Throws a refusal with the lines to change by hand. */
function refuseByHand(why: string, file: string, changes: readonly SettingChange[]): never {
  const [first] = changes
  const where = first?.section === undefined ? 'above the first section' : `in the section [${first.section}]`
  const lines = changes.map(lineOf).join(' and ')
  throw refuse(
    'not_editable',
    `${why} As root, set ${lines} ${where} of ${file}, then run "systemctl restart postrider".`,
  )
}

export class SettingsFile {
  readonly #source: ConfigSource
  readonly #reload: (fresh: Config) => Promise<unknown>

  constructor(source: ConfigSource, reload: (fresh: Config) => Promise<unknown>) {
    this.#source = source
    this.#reload = reload
  }

  /** Changes settings and applies the file. Throws a refusal for an invalid value or a file that it cannot change. */
  async change(changes: readonly SettingChange[]): Promise<void> {
    const { environment, file } = this.#source
    if (file === undefined)
      throw refuse('not_editable', 'This server runs without a configuration file. Run "postrider init" to create one.')
    let fresh: Config
    let text: string
    try {
      text = edited(readNamed(file).toString(), changes)
      fresh = configFrom(text, file, environment)
      demandSettings(fresh)
    } catch (thrown) {
      if (thrown instanceof OperatorError) throw refuse('invalid', thrown.message, { pointer: '/data/attributes' })
      throw thrown
    }
    for (const { key, section, value } of changes) {
      const of: unknown = section === undefined ? fresh : fresh[section]
      if (JSON.stringify((of as Record<string, unknown>)[key]) !== JSON.stringify(value))
        throw refuse(
          'not_editable',
          `An environment variable of the server sets "${section === undefined ? '' : `${section}.`}${key}". Change it there.`,
        )
    }
    if (!isWritable(file)) refuseByHand('This server is not permitted to write its configuration.', file, changes)
    try {
      writeConfig(file, text, undefined)
    } catch (thrown) {
      if (thrown instanceof OperatorError) refuseByHand(thrown.message, file, changes)
      throw thrown
    }
    await this.#reload(fresh)
  }
}
