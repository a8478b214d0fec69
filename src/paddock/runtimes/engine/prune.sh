# After apply.sh: images of configurations that are gone.
images_after=$(images_named)
for image in $images_before; do
    echo "$images_after" | grep -qxF "$image" || drop_images "$image"
done
