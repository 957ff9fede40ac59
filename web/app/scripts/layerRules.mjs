const BELOW = { app: ['app', 'features', 'live', 'api', 'ui'], features: ['live', 'api', 'ui'] };

/** What is wrong with `file` importing `target`, both from `src`; null if nothing is. Packages are named as they are. */
export function complaintAbout(file, target) {
  const [layer, feature] = file.split('/');
  const isTipTap = target.startsWith('@tiptap/') || target.startsWith('prosemirror');
  if (isTipTap) return file.startsWith('features/editing/') ? null : 'only features/editing knows TipTap';
  const [targetLayer, targetFeature] = target.split('/');
  // Outside of src: a package, or the Worker of our own.
  if (target.startsWith('..') || !['app', 'features', 'live', 'api', 'ui'].includes(targetLayer)) return null;
  if (layer === targetLayer) {
    return layer === 'features' && feature !== targetFeature ? 'one feature knows no other' : null;
  }
  return (BELOW[layer] ?? []).includes(targetLayer) ? null : `${layer} does not know ${targetLayer}`;
}
