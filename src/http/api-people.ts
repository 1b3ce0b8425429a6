// The users of this server, for operators (D76).
import { z } from 'zod'
import { OperatorError, refuseAttribute } from '../base/errors.ts'
import { isReadHere } from '../inbound/recipients.ts'
import { parseAddress } from '../message/address.ts'
import { addUser, listUsers, userByKey, type User } from '../identity/users.ts'
import type { Reader } from '../store/database.ts'
import { field } from '../jsonapi/resource.ts'
import { define } from '../jsonapi/define.ts'
import { EXTENSION, time, words, wordsOrNull } from '../jsonapi/fields.ts'
import { address, name } from '../jsonapi/schemas.ts'

const shown = (reader: Reader, user: User) => ({
  ...user,
  operator: user.operator === 1,
  reads_for: user.reads_for === null ? null : (userByKey(reader, user.reads_for)?.email ?? null),
})

export const people = define('people', {
  table: 'users',
  called: 'Person',
  about: `The users of this server; for operators who are signed in. ${EXTENSION}`,
  attributes: {
    email: field(address(), {
      create: 'required',
      about: 'The address of the person; links to sign in are sent to it.',
      example: 'ann@example.net',
    }),
    name: field(name(), { create: 'optional', about: 'The name of the person.' }),
    operator: field(z.boolean('must be true or false'), {
      create: 'optional',
      about: 'Whether the person sees and controls the whole server.',
    }),
    reads_for: field(address().nullable(), {
      create: 'optional',
      about:
        'The address of the person whose account they may look at, and nothing else; null: an account of their own.',
    }),
    plan: words('The plan of the account.'),
    subscription_state: wordsOrNull('Where the subscription stands.'),
    created_at: time('When they were added.'),
  },
  actions: [
    {
      kind: 'view',
      path: '/people',
      id: 'listPeople',
      scope: 'tokens:write',
      operator: 'person',
      params: ['page'],
      about: `List the people of this server. ${EXTENSION}`,
      run: ({ parts }) => listUsers(parts.store).map((user) => shown(parts.store, user)),
    },
    {
      kind: 'create',
      path: '/people',
      id: 'addPerson',
      scope: 'tokens:write',
      operator: 'person',
      refuses: ['already_exists'],
      about: `Add a person. ${EXTENSION}`,
      async run({ attributes, parts }) {
        const { email, name: called, operator, reads_for } = attributes
        if (isReadHere(parts, parseAddress(email)?.address ?? ''))
          throw refuseAttribute(
            'invalid',
            'email',
            `Mail to ${email} comes to this server, where others may read it, so no link to sign in is mailed there. Give another address, or run "postrider user add" and "postrider user passwd".`,
          )
        const given = {
          email,
          ...(called === undefined ? {} : { name: called }),
          ...(operator === undefined ? {} : { operator }),
          ...(typeof reads_for === 'string' ? { readsFor: reads_for } : {}),
        }
        try {
          return { row: shown(parts.store, await addUser(parts, given)) }
        } catch (thrown) {
          if (!(thrown instanceof OperatorError)) throw thrown
          const known = /exists already/.test(thrown.message)
          throw refuseAttribute(known ? 'already_exists' : 'invalid', known ? 'email' : 'reads_for', thrown.message)
        }
      },
    },
  ],
})
