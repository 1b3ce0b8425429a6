// `postrider upgrade`: migrates the database of an older version without starting the server. `serve` also migrates it,
// at its start.
import type { Command } from 'commander'
import { OperatorError } from '../base/errors.ts'
import { openInstance } from '../store/instance.ts'
import { takeLock } from '../store/lock.ts'
import { migrations } from '../schema/migrations.ts'
import { configOf, type Invocation } from '../commands/open.ts'
import { answer } from '../commands/terminal.ts'

export function upgradeCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('upgrade')
    .description('bring the database up to this version, with a copy of it as it was; the server must be stopped')
    .action(() => {
      const now = invocation()
      const { data_dir } = configOf(now)
      const release = takeLock(data_dir)
      if (!release)
        throw new OperatorError(
          `A server uses ${data_dir}; stop it first, or restart it with this version: it upgrades by itself.`,
        )
      let from = migrations.length
      try {
        openInstance(data_dir, { migrating: (found) => (from = found) }).store.close()
      } finally {
        release()
      }
      const schema = migrations.length
      answer(now.terminal, { from, schema }, () =>
        from === schema
          ? `The database has schema ${schema} already.`
          : `The database went from schema ${from} to ${schema}; as it was before it lies beside it as postrider.db.schema-${from} for a week.`,
      )
    })
}
