// The tables of images: images for campaigns, and which campaign uses which.
import { blob, id, integer, key, oneOf, tablesOf, text, time } from './table.ts'

export const imagesTables = tablesOf('images', {
  images: {
    undigested: 'the file proves itself by its name, and what is shown of it can be read from the file',
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      /** The name that its owner sees, never a part of a path. */
      name: text({ person: 'mark' }),
      content_type: oneOf(['image/png', 'image/jpeg', 'image/gif', 'image/webp']),
      width: integer(),
      height: integer(),
      /** Bytes of the file. */
      size: integer(),
      /** SHA-256 of the file: an account has the same image once. */
      hash: blob(),
      spool: text({ nobody: 'the name of a file' }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** Files of images that are deleted, until they are removed. A trigger on images notes them. */
  images_gone: {
    columns: {
      spool: text({ undigested: 'the name of a file that is not needed', nobody: 'the name of a file' }),
    },
  },
  /** The images in the HTML of a campaign, written when the HTML is. */
  image_uses: {
    by: 'image_key',
    owned: 'image_key in (select key from images where user_key = ?)',
    columns: {
      image_key: integer(),
      campaign_key: integer(),
    },
  },
})
