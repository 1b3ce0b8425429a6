// Imports and exports of contacts and suppressions as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { suppressionImports } from './api.ts'
import { listImports } from './api-contacts.ts'
import { audiencePlaces } from './page.ts'
import { suppressionPlaces } from './page-suppressions.ts'

export const listsPart = part<ApiDeps>('lists', {
  resources: [listImports, suppressionImports],
  pages: [...audiencePlaces, ...suppressionPlaces],
  menu: [
    {
      group: 'Newsletters',
      rank: 2,
      path: '/audiences',
      key: 'a',
      name: 'Audiences',
      icon: 'audiences',
      scope: 'contacts',
    },
  ],
})
