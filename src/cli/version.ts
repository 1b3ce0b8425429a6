// `postrider version`: the version of this program and its parts, and the files it uses here.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { builtFrom } from '../base/installed.ts'
import { commit, version } from '../base/version.ts'
import { sqliteVersion } from '../store/copy.ts'
import { migrations } from '../schema/migrations.ts'
import { DATABASE } from '../store/open.ts'
import { findConfig } from '../base/config-file.ts'
import { configOf, type Invocation } from '../commands/open.ts'
import { answer } from '../commands/terminal.ts'

export function versionCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('version')
    .description('the version of the program, of what is inside it, and the files it uses')
    .action(() => {
      const now = invocation()
      const { data_dir } = configOf(now)
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
configuration: ${shown.config ?? 'defaults (no file was found)'}
data directory: ${shown.data_dir}${there ? '' : ' (no database there yet)'}`,
      )
    })
}
