// The brand of an account as one resource of the API.
import { z } from 'zod'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { field, type Caller } from '../jsonapi/resource.ts'
import { line, text, unlessBlank, visibleLine } from '../jsonapi/schemas.ts'
import { parseAddress } from '../message/address.ts'
import { brandOf, changeBrand, type Brand } from './brand.ts'
import { MAX_LOOK } from './body-parts.ts'

const rowOf = ({ userId, userKey }: Caller, brand: Brand) => ({ key: userKey, id: userId, ...brand })

export const brands = define('brands', {
  table: 'brands',
  path: '/brand',
  scope: 'campaigns',
  about: 'The look and the default sender of the campaigns of an account. Each account has one brand, with its id.',
  extension: true,
  find: (_, { store }: ApiDeps, caller) => rowOf(caller, brandOf(store, caller.userKey)),
  attributes: {
    sender_name: field(unlessBlank(visibleLine(MAX_LOOK.brand, 'characters')), {
      update: true,
      about: 'Name of the sender. Null if absent.',
      example: 'Acme',
    }),
    from_address: field(
      z
        .string('must be a string')
        .refine((value) => parseAddress(value)?.name === '', 'must be an email address without a name')
        .transform((value) => parseAddress(value)?.address ?? value)
        .nullable(),
      {
        update: true,
        answer: z.string().nullable(),
        about:
          'Default From address of new campaigns. It belongs to a verified domain of the account. A campaign on another sending domain has noreply@ on that domain. Null if absent.',
        example: 'news@example.org',
      },
    ),
    logo: field(
      unlessBlank(
        line(MAX_LOOK.logo).regex(/^https?:\/\/[^\s/]/i, 'must be a URL that starts with https:// or http://'),
      ),
      {
        update: true,
        about:
          'URL of the logo. Emails show any URL. The pages for recipients show only an image that this server stores. Null if absent.',
        example: 'https://example.org/logo.png',
      },
    ),
    colour: field(
      z
        .string('must be a string')
        .regex(/^#[0-9a-f]{6}$/i, 'must be a colour such as #1d5bd8')
        .transform((value) => value.toLowerCase())
        .nullable(),
      { update: true, answer: z.string().nullable(), about: 'Colour, as #rrggbb. Null if absent.', example: '#1d5bd8' },
    ),
    postal_address: field(unlessBlank(text(MAX_LOOK.postal)), {
      update: true,
      about: 'Postal address for the footer of campaigns. Null if absent.',
      example: 'Acme Ltd, 1 High Street, London',
    }),
  },
  actions: [
    { kind: 'show', about: 'Get the brand of the account.' },
    {
      kind: 'update',
      refuses: ['address_outside_domain', 'domain_not_active'],
      about: 'Update the brand of the account. New campaigns use it. Existing campaigns do not change.',
      run: async ({ attributes, caller, parts }) => ({
        row: rowOf(caller, await changeBrand(parts, caller.userKey, attributes)),
      }),
    },
  ],
})
