from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('desktops', '0010_live_views'),
    ]

    operations = [
        migrations.AddField(
            model_name='worker',
            name='left_at',
            field=models.DateTimeField(blank=True, help_text='It said that it stops.', null=True),
        ),
        migrations.AddField(
            model_name='worker',
            name='removed_at',
            field=models.DateTimeField(blank=True, help_text='It is listed no longer; connecting again brings it back.', null=True),
        ),
    ]
