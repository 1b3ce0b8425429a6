// `postrider export …`: files with all data about a recipient, for the right of access.
import { existsSync, writeFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { unwritable } from '../base/file-faults.ts'
import { readPlain } from '../base/plain-file.ts'
import { EXPORTS, listRequests } from './requests.ts'
import { withDeps, type Invocation } from '../views/command/open.ts'
import { answer, answerRows, demandRedirected, writeOut } from '../views/command/terminal.ts'

export function exportCommand(program: Command, invocation: () => Invocation): void {
  const command = program.command('export').description('download the data of a recipient (right of access)')
  command
    .command('list')
    .description('list privacy requests (exports and erasures)')
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
        const columns = {
          ID: 'id',
          KIND: 'kind',
          STATUS: 'status',
          READY: ({ ready }: (typeof all)[number]) => (ready ? 'yes' : 'no'),
          REQUESTED: 'requested_at',
          USER: 'user',
        } as const
        answerRows(invocation().terminal, all, columns, 'There are no privacy requests.')
      }),
    )
  command
    .command('fetch <id>')
    .description('save a data export to a file')
    .option('--out <file>', 'output file, or - for standard output (default: ID.zip)')
    .action((id: string, { out }: { out?: string }) =>
      withDeps(invocation(), ({ config, store }) => {
        const request = listRequests(store).find((each) => each.id === id && each.kind === 'export')
        if (!request)
          throw new OperatorError(`There is no export ${id}; run "postrider export list" to see all exports.`)
        const kept = request.file === null ? undefined : join(config.data_dir, EXPORTS, request.file)
        if (kept === undefined || !existsSync(kept))
          throw new OperatorError(
            request.status === 'pending'
              ? 'The export is not ready yet; start the server, which creates it, and try again.'
              : 'The export has expired; request a new one.',
          )
        if (out === '-') {
          demandRedirected()
          return writeOut(Readable.from([readPlain(kept)]))
        }
        const target = resolve(out ?? `${id}.zip`)
        if (existsSync(target)) throw new OperatorError(`${target} exists; choose another file with --out.`)
        try {
          writeFileSync(target, readPlain(kept), { mode: 0o600, flag: 'wx' })
        } catch (thrown) {
          throw unwritable(target, thrown, 'choose another path, or write to standard output ("--out -")')
        }
        answer(invocation().terminal, { id, file: target }, () => `Saved ${target}. The file contains personal data.`)
      }),
    )
}
