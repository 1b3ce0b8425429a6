// `postrider export …`: files with all data about one person, for that person's right of access.
import { existsSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { unwritable } from '../base/file-faults.ts'
import { asCallerAt } from '../base/ownership.ts'
import { readPlain } from '../base/plain-file.ts'
import { EXPORTS } from './bundle.ts'
import { listRequests } from './requests.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'

export function exportCommand(program: Command, invocation: () => Invocation): void {
  const command = program.command('export').description('bundles of what is known of a recipient')
  command
    .command('list')
    .description('every request, erasures too')
    .action(() =>
      withDeps(invocation(), ({ store }) => {
        const all = listRequests(store).map((request) => ({
          id: request.id,
          user: request.email,
          kind: request.kind,
          recipient_hash: request.recipient_hash,
          status: request.status,
          requested_at: iso(request.requested_at),
          ready: request.file !== null,
        }))
        answer(invocation().terminal, all, (rows) =>
          rows.length === 0
            ? 'There are no privacy requests.'
            : table(
                ['ID', 'KIND', 'STATUS', 'READY', 'REQUESTED', 'USER'],
                rows.map((row) => [row.id, row.kind, row.status, row.ready ? 'yes' : 'no', row.requested_at, row.user]),
              ),
        )
      }),
    )
  command
    .command('fetch <id>')
    .description('copy a bundle to a file')
    .option('--out <file>', 'where to; the id with .zip in this directory when absent')
    .action((id: string, { out }: { out?: string }) =>
      withDeps(invocation(), ({ config, store }) => {
        const request = listRequests(store).find((each) => each.id === id && each.kind === 'export')
        if (!request) throw new OperatorError(`There is no export ${id}; "postrider export list" shows all.`)
        const kept = request.file === null ? undefined : join(config.data_dir, EXPORTS, request.file)
        if (kept === undefined || !existsSync(kept))
          throw new OperatorError(
            request.status === 'pending'
              ? 'The bundle is not ready yet; a running server assembles it.'
              : 'The bundle is no longer kept; ask for a new one.',
          )
        const target = resolve(out ?? `${id}.zip`)
        if (asCallerAt(target, () => existsSync(target)))
          throw new OperatorError(`${target} exists; choose another file with --out.`)
        try {
          const octets = readPlain(kept)
          asCallerAt(target, () => writeFileSync(target, octets, { mode: 0o600, flag: 'wx' }))
        } catch (thrown) {
          throw unwritable(target, thrown)
        }
        answer(invocation().terminal, { id, file: target }, () => `Written to ${target}. It holds personal data.`)
      }),
    )
}
