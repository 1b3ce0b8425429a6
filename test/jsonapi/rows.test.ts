// Actions get the row that the path names with the columns of their table, and the parent by its resource.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { audiences } from '../../src/campaigns/api-audiences.ts'
import { campaigns } from '../../src/campaigns/api.ts'
import { define } from '../../src/jsonapi/define.ts'
import { field, parentOf } from '../../src/jsonapi/resource.ts'
import { z } from 'zod'

const call = { parent: { key: 7, id: 'id', domain_key: 3 }, within: 'audiences' }

test('a parent has the columns of its resource, and is not a row of another', () => {
  const audience = parentOf(audiences, call)
  const domain: number = audience.domain_key
  assert.equal(domain, 3)
  // @ts-expect-error: a column of another type
  const wrong: string = audience.domain_key
  assert.ok(wrong)
  assert.throws(() => parentOf(campaigns, call), /within audiences, not campaigns/)
})

test('the row of an action has the columns of the table', () => {
  const things = define('things', {
    table: 'webhooks',
    about: 'Things.',
    attributes: { name: field(z.string(), { about: 'A name.' }) },
    actions: [
      {
        kind: 'delete',
        path: '/things/:thing',
        scope: 'webhooks:write',
        about: 'Remove it.',
        async run({ row }) {
          const url: string = row.url
          // @ts-expect-error: a column of another type
          const key: string = row.domain_key
          assert.ok(url + key)
        },
      },
    ],
  })
  assert.equal(things.table satisfies 'webhooks', 'webhooks')
})
