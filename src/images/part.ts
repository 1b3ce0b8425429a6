// Images of campaigns as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { images } from './api.ts'
import { ownsFile, removeGone } from './images.ts'
import { picturesPlace } from './page.ts'
import { imageRoutes } from './serve.ts'
import { noteUses } from './uses.ts'

export const imagesPart = part<ApiDeps>('images', {
  resources: [images],
  pages: [picturesPlace],
  menu: [
    {
      group: 'Newsletters',
      rank: 3,
      path: '/pictures',
      key: 'x',
      name: 'Images',
      icon: 'pictures',
      scope: 'campaigns',
    },
  ],
  routes: imageRoutes,
  campaignWritten: noteUses,
  ownsFile,
  // A kill between the deletion of a row and of its file leaves the file.
  configured: removeGone,
  hourly: removeGone,
})
