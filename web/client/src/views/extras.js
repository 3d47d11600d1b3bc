// What the page can be shown without: loaded when it is asked for first, or when there is nothing to do. DOM.

export { AwayLine } from './away.js';
export { Dialogs } from './dialogs.js';
export { DraftFileList } from './draft_file_list.js';
export { Edit } from './edit.js';
export { Gone } from './gone.js';
export { SearchResults } from './search_results.js';
export { SignIn } from './sign_in.js';
export { Rename, ThreadMenu } from './thread_menu.js';
export { Tool } from './tool.js';
