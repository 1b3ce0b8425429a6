// The history of imports into an audience: what each did, and its refused lines as a file.
import { html } from 'hono/html'
import { refuse } from '../base/errors.ts'
import { audiences } from '../campaigns/api-audiences.ts'
import { guard, page } from '../webui/frame.ts'
import { done, found, type Place } from '../webui/place.ts'
import { count, counted, facts, figures, pageOf, pager, table, tile, time, type Html } from '../webui/widgets.ts'
import { number, relatedId, text, type Thing, type Visit } from '../webui/visit.ts'
import { listImports } from './api-contacts.ts'

type PastImportShown = Thing<typeof listImports>

const fileOf = (past: PastImportShown): string | Html => text(past, 'file') || html`<span class="soft">no file</span>`

const CRUMBS = (id: string, name: string) =>
  [
    ['/audiences', 'Audiences'],
    [`/audiences/${id}`, name],
  ] as const

const whoOf = (past: PastImportShown): string => text(past, 'made_by') || 'unknown'

const historyPlace: Place = {
  path: '/audiences/:id/imports',
  async show(visit) {
    const { id } = visit.context.req.param() as { id: string }
    const { one } = found(await visit.get(audiences, `/audiences/${id}`))
    const answer = await visit.get(listImports, `/audiences/${id}/list-imports?${pageOf(visit)}`)
    return page(visit, {
      title: 'History of imports',
      about: 'Each list that was brought in, and what became of its rows.',
      crumbs: CRUMBS(id, text(one, 'name')),
      actions: visit.reading ? '' : html`<a class="button" href="/audiences/${id}/import">Import contacts</a>`,
      errors: answer.errors,
      body: html`${table(
        'History of imports',
        [
          'File',
          { title: 'When', kind: 'time' },
          { title: 'By', width: 20 },
          ...figures('New', 'Updated', 'Skipped', 'Refused'),
        ],
        answer.many.map((past) => [
          html`<a href="/audiences/${id}/imports/${past.id}">${fileOf(past)}</a>`,
          time(past.attributes.created_at),
          whoOf(past),
          ...(['created', 'updated', 'skipped', 'refused_count'] as const).map((name) => count(number(past, name))),
        ]),
        'No list was imported yet.',
      )}
      ${pager(visit, answer)}`,
    })
  },
}

/** The import that the path names. Throws 404 when it is none of this audience. */
async function pastOf(visit: Visit): Promise<PastImportShown> {
  const { id, import: name } = visit.context.req.param() as { id: string; import: string }
  const { one } = found(await visit.get(listImports, `/list-imports/${name}`))
  if (relatedId(one, 'audience') !== id) throw refuse('not_found', 'There is nothing here.')
  return one
}

const importPage: Place = {
  path: '/audiences/:id/imports/:import',
  async show(visit) {
    const { id } = visit.context.req.param() as { id: string }
    const { one } = found(await visit.get(audiences, `/audiences/${id}`))
    const past = await pastOf(visit)
    const refused = number(past, 'refused_count')
    const tiles: readonly (readonly [label: string, sum: number, note?: string])[] = [
      ['New', number(past, 'created')],
      ['Updated', number(past, 'updated')],
      ['Kept as left', number(past, 'unsubscribed')],
      ['Suppressed', number(past, 'suppressed'), 'blocked, bounced or complained'],
      ['Skipped', number(past, 'skipped') - refused, 'there already, twice, or never confirmed'],
      ['Refused', refused],
    ]
    const shown = tiles.filter(([label, sum]) => sum > 0 || label === 'New' || label === 'Updated')
    const until = past.attributes.refused_until
    return page(visit, {
      title: text(past, 'file') === '' ? 'Import' : `Import of ${text(past, 'file')}`,
      crumbs: [...CRUMBS(id, text(one, 'name')), [`/audiences/${id}/imports`, 'History of imports']],
      actions: html`${
          until === null
            ? ''
            : html`<a class="button plain" href="/audiences/${id}/imports/${past.id}/refused.csv">Refused lines</a> `
        }<a class="button" href="/audiences/${id}">To the audience</a>`,
      done: done(visit),
      body: html`<div class="tiles">
          ${shown.map(([label, sum, note]) => tile(label, count(sum), note === undefined ? {} : { note: html`<span class="soft">${note}</span>` }))}
        </div>
        ${facts([
          ['When', time(past.attributes.created_at)],
          ['By', whoOf(past)],
          ...(until === null ? [] : ([['Refused lines', html`kept until ${time(until)}`]] as const)),
        ])}
        ${
          refused > 0 && until !== null
            ? html`<p class="soft">
                ${counted(refused, 'line')} of the file ${refused === 1 ? 'was' : 'were'} refused. The file of refused
                lines says why; fix them there and import it again.
              </p>`
            : ''
        }`,
    })
  },
}

const refusedFile: Place = {
  path: '/audiences/:id/imports/:import/refused.csv',
  async show(visit) {
    const past = await pastOf(visit)
    const file = await visit.download(`/list-imports/${past.id}/refused`)
    if (file.status !== 200) throw refuse('not_found', 'The refused lines of this import are not kept any more.')
    guard(visit.context)
    visit.context.header('Content-Type', 'text/csv; charset=utf-8')
    visit.context.header('Content-Disposition', 'attachment; filename="refused-lines.csv"')
    return visit.context.body(await file.arrayBuffer())
  },
}

export const historyPlaces = [refusedFile, importPage, historyPlace]
