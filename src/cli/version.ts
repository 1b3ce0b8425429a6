// `postrider version`: the version of this program and its parts, and the files it uses here.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { builtFrom } from '../base/installed.ts'
import { commit, version } from '../base/version.ts'
import { sqliteVersion } from '../store/copy.ts'
import { migrations } from '../store/schema/migrations.ts'
import { DATABASE } from '../store/open.ts'
import { findConfig } from '../base/config-file.ts'
import { settingsOf, type Invocation } from '../views/command/open.ts'
import { answer } from '../views/command/terminal.ts'

export function versionCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('version')
    .description('show the version of Postrider, its components and its files')
    .action(() => {
      const now = invocation()
      const { data_dir } = settingsOf(now)
      const there = statSync(join(data_dir, DATABASE), { throwIfNoEntry: false }) !== undefined
      answer(
        now.terminal,
        {
          version,
          commit,
          node: process.versions.node,
          sqlite: sqliteVersion(data_dir),
          schema: migrations.length,
          arch: process.arch,
          built_from: builtFrom(),
          config: findConfig(now) ?? null,
          data_dir,
        },
        (shown) => `postrider ${shown.version}${shown.commit === null ? '' : ` (${shown.commit})`}
Node ${shown.node}, SQLite ${shown.sqlite}, schema ${shown.schema}, ${shown.arch}${shown.built_from === null ? '' : `, ${shown.built_from}`}
configuration: ${shown.config ?? 'defaults (no configuration file found)'}
data directory: ${shown.data_dir}${there ? '' : ' (no database yet)'}`,
      )
    })
}
